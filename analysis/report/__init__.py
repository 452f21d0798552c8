"""A run as a document: tables, figures, judgements; HTML, Markdown, JSON, CSV and JUnit."""
