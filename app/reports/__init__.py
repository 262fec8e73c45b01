"""Pictures and HTML reports of what the measuring commands found.

`page` is a report and its HTML, `drawing` turns a figure of matplotlib into its markup, `axes`
and `scale` are what all charts share, `charts` are the charts; `backtest`, `evaluation`,
`comparison` and `auction` are one report each. `pictures` saves files for --picture.
"""
