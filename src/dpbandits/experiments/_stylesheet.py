"""The style sheet of the report: readable on a phone, in light and in dark mode."""

STYLE = """
:root { --text: #1c2024; --soft: #5b6470; --page: #ffffff; --card: #f4f6f8; --line: #d8dde3;
  --link: #0b5cad; --good: #0a6b3d; --bad: #a3320b; --open: #5b6470; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e9ed; --soft: #a4adb8; --page: #14171a; --card: #1e2328; --line: #363d45;
    --link: #7ab8ff; --good: #5fd39a; --bad: #ff9a73; --open: #a4adb8; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { font-size: 1.3rem; margin-top: 2.5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; color: var(--soft); }
a { color: var(--link); }
code { font-size: .9em; background: var(--card); padding: .1em .3em; border-radius: .25em;
  overflow-wrap: anywhere; }
figure { margin: .8rem 0; padding: .5rem; background: #ffffff; border: 1px solid var(--line);
  border-radius: .5rem; display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
img { display: block; width: 100%; max-width: 36rem; height: auto; margin: 0 auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; margin: .6rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
table.checks td:nth-child(3), table.checks td:nth-child(4) { min-width: 14rem; }
.badge { white-space: nowrap; font-weight: 600; color: var(--open); }
.badge.agrees { color: var(--good); }
.badge.agrees::before { content: "✓ "; }
.badge.differs { color: var(--bad); }
.badge.differs::before { content: "✗ "; }
@media (max-width: 44rem) {
  table.checks thead { display: none; }
  table.checks tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  table.checks td { display: block; border: 0; padding: .1rem 0; }
  table.checks td:nth-child(1), table.checks td:nth-child(2) { display: inline-block; margin-right: .6rem; } }
details { background: var(--card); border-radius: .5rem; padding: .4rem .8rem; margin: .5rem 0; }
summary { cursor: pointer; }
"""
