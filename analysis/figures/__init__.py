"""Figures as SVG, by matplotlib, which is imported when the first one is drawn."""
