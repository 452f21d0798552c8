"""The style sheet of reports, on screens and in print."""

CSS = """
:root { --ink: #1a1a1a; --line: #c8c8c8; --paper: #fff; --soft: #f4f6f8; --accent: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 1rem 1.5rem 4rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, "DejaVu Sans", Arial, sans-serif; }
h1 { font-size: 1.7rem; margin: .5rem 0 0; }
h2 { font-size: 1.3rem; margin: 2.2rem 0 .6rem; padding-bottom: .2rem;
  border-bottom: 2px solid var(--accent); }
header p { margin: .2rem 0 1rem; color: #555; }
nav ol { columns: 3 14rem; padding-left: 1.4rem; margin: .5rem 0; }
a { color: var(--accent); }
.scroll { overflow-x: auto; margin: .8rem 0 1.2rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { caption-side: top; text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .28rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { border-bottom: 2px solid var(--ink); background: var(--soft); vertical-align: bottom; }
.number { text-align: right; }
td.short, td.number { white-space: nowrap; }
.text { text-align: left; }
.facts th { text-align: left; font-weight: 600; white-space: nowrap; width: 14rem; }
.facts td { overflow-wrap: anywhere; }
p.good, p.warning, p.bad, ul.warning, ul.bad { border-left: .4rem solid; padding: .5rem .9rem;
  background: var(--soft); }
.good { border-color: #009e73 !important; }
.warning { border-color: #e69f00 !important; }
.bad { border-color: #d55e00 !important; }
ul.warning, ul.bad { padding-left: 2rem; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: .8rem; }
figure { margin: 1rem 0 1.6rem; }
figure svg { max-width: 100%; height: auto; display: block; }
figcaption { font-size: .88rem; color: #444; max-width: 60rem; }
details { margin: .8rem 0; border: 1px solid var(--line); padding: .4rem .8rem; }
summary { cursor: pointer; font-weight: 600; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  figure, table, tr { break-inside: avoid; }
  .scroll, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
  a { color: inherit; text-decoration: none; }
}
"""
