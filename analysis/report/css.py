"""The style sheet of reports, on screens and in print."""

CSS = """
:root { --ink: #1a1a1a; --line: #c8c8c8; --paper: #fff; --soft: #f4f6f8; --accent: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 100rem; padding: 1rem 1.5rem 4rem; color: var(--ink);
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
thead th, td { text-align: right; }
td { white-space: nowrap; }
table.compact { font-size: .8rem; }
.compact th, .compact td { padding: .25rem .35rem; }
td.long { white-space: normal; }
.text { text-align: left !important; }
.facts th { text-align: left; font-weight: 600; white-space: nowrap; width: 14rem; }
.facts td { overflow-wrap: anywhere; white-space: normal; text-align: left; }
p.good, p.warning, p.bad, ul.warning, ul.bad { border-left: .4rem solid; padding: .5rem .9rem;
  background: var(--soft); }
.good { border-color: #009e73 !important; }
.warning { border-color: #e69f00 !important; }
.bad { border-color: #d55e00 !important; }
ul.warning, ul.bad { padding-left: 2rem; }
.columns { columns: 2 24rem; column-gap: 2rem; margin-bottom: 1rem; }
.columns > div { break-inside: avoid; padding-top: .8rem; }
.columns table { width: 100%; }
.columns .facts th { width: 9rem; }
h3 { font-size: 1rem; margin: .8rem 0 -.4rem; }
.columns h3 { margin-top: 0; }
ul.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr));
  gap: .8rem; list-style: none; padding: 0; margin: 1rem 0; }
ul.cards li { border: 1px solid var(--line); border-top: .3rem solid var(--accent);
  padding: .6rem .9rem; }
ul.cards strong { display: block; font-size: 1.6rem; line-height: 1.2;
  font-variant-numeric: tabular-nums; }
ul.cards span { font-size: .85rem; }
ul.cards small { display: block; color: #444; font-size: .85rem; margin-top: .3rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(34rem, 1fr));
  gap: 0 1.5rem; align-items: start; }
ul.links { columns: 4 16rem; font-size: .9rem; padding-left: 1.2rem; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: .8rem; }
figure { margin: 1rem 0 1.6rem; }
figure svg { max-width: 100%; height: auto; display: block; }
figcaption { font-size: .88rem; color: #444; max-width: 60rem; }
details { margin: .8rem 0; border: 1px solid var(--line); padding: .4rem .8rem; }
summary { cursor: pointer; font-weight: 600; }
@media screen {
  /* what is not yet seen is laid out when somebody gets there: a long report opens at once */
  section, figure { content-visibility: auto; contain-intrinsic-size: auto 30rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  figure, tr, ul.cards li { break-inside: avoid; }
  h2, h3, caption, summary { break-after: avoid; }
  thead { display: table-header-group; }
  table { font-size: 7.5pt; }
  th, td { padding: .12rem .3rem; }
  table.compact { font-size: 6.5pt; }
  .compact th, .compact td { padding: .12rem .2rem; }
  tbody tr:first-child { break-before: avoid; }
  .figures { display: block; }
  .columns { columns: 2 16rem; }
  .columns .facts th { width: 7rem; }
  ul.cards { grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .5rem; }
  ul.cards strong { font-size: 1.2rem; }
  figure svg { max-height: 9cm; }
  details { border: 0; padding: 0; }
  details.brief::details-content { content-visibility: visible; block-size: auto; }
  summary { list-style: none; }
  details:not(.brief):not([open]) > summary { font-weight: 400; }
  details:not(.brief):not([open]) > summary::after { content: " (folded away: not printed)"; }
  .scroll, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
  a { color: inherit; text-decoration: none; }
}
"""
