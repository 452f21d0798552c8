"""Count what breaks the style rules and compare it with the stored limits.

Usage: ``python -m v6t.tools.rules [--lower | --move]``. ``tools/limits.json`` stores, for each rule and
folder, the number of places that are allowed today. The program fails if a number grows, or if a folder
without a limit has a place. ``--lower`` stores smaller numbers and never larger ones. ``--move`` stores all
numbers after modules have moved to another folder, unless the sum of a rule grew.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
LIMITS = Path("tools/limits.json")
WORDS = Path("tools/words.txt")
NOT_PRODUCT = {"build", "docs", "tests"}
CORRECT = "ect,fro,nd"
"""Abbreviations that codespell takes for misspelled words."""
ODD_NAME = re.compile(
    r"_*(of_\w+|(beside|within|behind|beyond)(_\w+)?|told|given|made|found|kept|held|seen|sent|left|known|taken"
    r"|drawn|written|shown|lost|met|gone|said|thought|brought|built|bound|put|of|by|around|together|here|there"
    r"|still|again|once|own|other|others|whole|first|most|least|before|after|now|then|also|both|such|so|only"
    r"|ever|never|alone|aside|along|across|apart|toward|inside|outside|away|back|ones?|what|who|how|why|where"
    r"|whose|mine|ours|theirs|\w+ed)"
)
NOUNS_IN_ED = re.compile(
    r"_*(speed|seed|feed|need|shed|bed|embed|red|exceed|proceed|succeed|(is|has|can|check)_\w+)"
)
NO_VERB_NEEDED = {"property", "cached_property", "setter", "field_validator", "model_validator"}
MODULE_NAME = re.compile(r"v6t\.[a-z_]+\.\w[\w.]*(:\w+)?")

Counts = Mapping[str, Mapping[str, int]]


def folder_of(path: Path) -> str:
    """Return the folder that a path is counted in: at most two levels."""
    return path.parent.as_posix() if len(path.parts) < 3 else "/".join(path.parts[:2])


def product_files(root: Path) -> list[Path]:
    """List the modules of the product and of ``tools``, relative to the checkout."""
    folders = [p.parent for p in root.glob("*/__init__.py") if p.parent.name not in NOT_PRODUCT]
    return sorted(p.relative_to(root) for folder in folders for p in folder.rglob("*.py"))


def pages(root: Path) -> list[Path]:
    """List the pages that people write, relative to the checkout."""
    paths = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    relative = sorted(p.relative_to(root) for p in paths)
    return [p for p in relative if p.parts[:2] != ("docs", "results")]


@cache
def parse(path: Path) -> ast.Module:
    """Parse a module once for all rules."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def list_nodes(tree: ast.Module) -> list[ast.AST]:
    """List the nodes of a module that rules look at."""
    kinds = (ast.Constant, ast.Expr, ast.FunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def docstrings_and_comments(path: Path) -> str:
    """Blank everything in a module but docstrings and comment lines; line numbers stay."""
    source = path.read_text(encoding="utf-8").splitlines()
    lines = [line if line.lstrip().startswith("#") else "" for line in source]
    for node in list_nodes(parse(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            lines[first:last] = source[first:last]
    return re.sub(r"``.*?``", "", "\n".join(lines))


def prose(path: Path) -> str:
    """Blank code blocks, inline code and targets of links of a page; line numbers stay."""
    page = re.sub(r"\]\([^)\n]*\)", "]", path.read_text(encoding="utf-8"))
    page = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), page, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", page)


def find_words(root: Path, words: Path) -> list[str]:
    """Run codespell with its own and the project's dictionary.

    Returns:
        Lines ``path:line: word ==> replacement``.
    """
    phrases = [line.partition("->")[0] for line in words.read_text().splitlines()]
    phrases = sorted((p for p in phrases if not p.isalpha()), key=len, reverse=True)
    pattern = rf"\b(?:{'|'.join(map(re.escape, phrases))})\b|[\w\-']+"
    with tempfile.TemporaryDirectory() as place:
        for path, read in (
            *((p, docstrings_and_comments) for p in product_files(root)),
            *((p, prose) for p in pages(root)),
        ):
            copy = Path(place, path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(read(root / path), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "codespell_lib", f"--dictionary=-,{words}", "--regex", pattern,
             "-L", CORRECT, "."],
            cwd=place, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.stderr:
        raise RuntimeError(done.stderr)
    return [line.removeprefix("./") for line in done.stdout.splitlines()]


def count_words(root: Path) -> Counter[str]:
    """Count the words to avoid in docstrings, comments and pages."""
    return Counter(
        folder_of(Path(line.partition(":")[0])) for line in find_words(root, root / WORDS)
    )


def odd_names(tree: ast.Module) -> Iterator[str]:
    """Yield the functions that are named by a participle, preposition, adverb or pronoun."""
    for node in list_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            decorators = {getattr(d, "id", getattr(d, "attr", "")) for d in node.decorator_list}
            odd = ODD_NAME.fullmatch(node.name) and not NOUNS_IN_ED.fullmatch(node.name)
            if odd and not decorators & NO_VERB_NEEDED:
                yield node.name


def count_names(root: Path) -> Counter[str]:
    """Count functions that are not named by a verb phrase."""
    return Counter(
        folder_of(path) for path in product_files(root) for _ in odd_names(parse(root / path))
    )


def module_names(tree: ast.Module) -> Iterator[str]:
    """Yield strings that name a module of v6t; docstrings are left out."""
    docstrings = {id(n.value) for n in list_nodes(tree) if isinstance(n, ast.Expr)}
    for node in list_nodes(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            text = str(node.value)
            if MODULE_NAME.fullmatch(text.rstrip(".")):
                yield text


def count_module_names(root: Path) -> Counter[str]:
    """Count the strings that name a module, which import contracts do not see."""
    return Counter(
        f"{path.as_posix()}: {name}"
        for path in product_files(root)
        if path.parts[0] != "tools"
        for name in module_names(parse(root / path))
        if (root / name.split(".")[1]).is_dir()
    )


RULES: Mapping[str, Callable[[Path], Counter[str]]] = {
    "words to avoid (tools/words.txt)": count_words,
    "functions not named by a verb phrase": count_names,
    "module names in strings": count_module_names,
}


def compare(counts: Counts, limits: Counts) -> tuple[list[str], list[str]]:
    """Compare counts with limits.

    Returns:
        Messages about numbers that grew, and about limits that can be lowered.
    """
    grown, shrunk = [], []
    for rule, found in counts.items():
        stored = limits.get(rule, {})
        for place in sorted({*found, *stored}):
            count, limit = found.get(place, 0), stored.get(place, 0)
            message = f"{rule}: {place}: {count}, limit {limit}"
            if count != limit:
                (grown if count > limit else shrunk).append(message)
    return grown, shrunk


def lower(counts: Counts, limits: Counts) -> dict[str, dict[str, int]]:
    """Return the smaller of count and limit for each place; zeros are dropped."""
    return {
        rule: {
            place: min(limit, counts[rule].get(place, 0))
            for place, limit in sorted(limits.get(rule, {}).items())
            if counts[rule].get(place)
        }
        for rule in counts
    }


def move(counts: Counts, limits: Counts) -> dict[str, dict[str, int]]:
    """Return the counts as limits for modules that moved to another folder.

    Raises:
        SystemExit: the sum of a rule grew.
    """
    for rule, found in counts.items():
        before, now = sum(limits.get(rule, {}).values()), sum(found.values())
        if now > before:
            raise SystemExit(f"{rule}: {now} places, {before} before")
    return {rule: {k: v for k, v in sorted(found.items()) if v} for rule, found in counts.items()}


def main() -> int:
    """Run the program; the exit status is 1 if a number grew."""
    parser = argparse.ArgumentParser(prog="python -m v6t.tools.rules", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="store the numbers that shrank")
    parser.add_argument("--move", action="store_true", help="store all numbers if no sum grew")
    parser.add_argument("--words", action="store_true", help="print the words to avoid and stop")
    options = parser.parse_args()
    if options.words:
        print("\n".join(find_words(CHECKOUT, CHECKOUT / WORDS)))
        return 0
    counts = {rule: count(CHECKOUT) for rule, count in RULES.items()}
    limits = json.loads((CHECKOUT / LIMITS).read_text())
    grown, shrunk = compare(counts, limits)
    if options.lower or options.move:
        limits = (move if options.move else lower)(counts, limits)
        (CHECKOUT / LIMITS).write_text(json.dumps(limits, indent=2, sort_keys=True) + "\n")
        grown, _ = compare(counts, limits)
    elif shrunk:
        print(f"{len(shrunk)} limits can be lowered: python -m v6t.tools.rules --lower")
    print("\n".join(f"too many: {message}" for message in grown), end="\n" if grown else "")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
