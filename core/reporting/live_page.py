"""The page that follows a run: what is going on now, and the report so far, with nothing from elsewhere."""

from __future__ import annotations

import hashlib
from base64 import b64encode

_SCRIPT = """
const [now, trials, report] = ["now", "trials", "report"].map(id => document.getElementById(id));
let shown = -1;
async function text(where) {
  const answer = await fetch(where, {cache: "no-store"});
  if (!answer.ok) throw new Error(answer.status);
  return answer.text();
}
async function update() {
  try {
    const state = JSON.parse(await text("now"));
    now.textContent = state.now;
    trials.replaceChildren(...state.trials.map(line => {
      const item = document.createElement("li");
      item.textContent = line;
      return item;
    }));
    document.title = state.title;
    if (state.version !== shown) {
      const open = new Set([...report.querySelectorAll("details[open] > summary")]
        .map(summary => summary.textContent));
      const page = new DOMParser().parseFromString(await text("report"), "text/html");
      report.replaceChildren(...page.querySelectorAll("style, header, main"));
      for (const summary of report.querySelectorAll("summary"))
        if (open.has(summary.textContent)) summary.parentElement.open = true;
      shown = state.version;
    }
  } catch (lost) {
    now.textContent = "It has ended, or its machine cannot be reached: this is what was seen last.";
  }
  setTimeout(update, 2000);
}
update();
"""
_STYLE = """
#now { position: sticky; top: 0; margin: 0; padding: .6rem 1rem; background: #fff8e6;
  border-bottom: 2px solid #e69f00; font: 16px/1.5 system-ui, sans-serif; z-index: 1; }
/* what is replaced at each update has no remembered height: the page would jump */
#report section, #report figure { content-visibility: visible; }
#trials { font: 13px/1.5 ui-monospace, monospace; color: #444; }
"""
POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; "
    f"script-src 'sha256-{b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""The browser is told that this one script may run, and that it may ask nobody but this server."""

PAGE = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f"<title>v6t</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    '<p id="now" role="status">This page needs a browser with scripts.</p>\n'
    f'<ul id="trials"></ul>\n<div id="report"></div>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n'
)
