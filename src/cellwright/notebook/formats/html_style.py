"""The style of a page: made for reading, in the light or dark of the reader's system, and for paper."""

STYLE = """
:root{color-scheme:light dark;--paper:#fdfdfb;--ink:#22252a;--soft:#5f6670;--line:#e2e3df;--block:#f4f4f0;--accent:#1d5fa8;--bad:#a3271c;
--c:#5c6b5c;--s:#7a4b12;--k:#7a2d70;--n:#1d5fa8}
@media (prefers-color-scheme:dark){:root{--paper:#17191c;--ink:#dcdedb;--soft:#9aa1a9;--line:#31353a;--block:#1f2226;--accent:#86b6ec;
--bad:#f0938a;
--c:#94a694;--s:#dcb27a;--k:#d79bd0;--n:#86b6ec}}
*{box-sizing:border-box}
body{margin:0;padding:4rem 1.5rem 6rem;background:var(--paper);color:var(--ink);
font:1.0625rem/1.62 Charter,"Bitstream Charter","Sitka Text",Cambria,Georgia,serif}
header,main{max-width:46rem;margin:0 auto}
header{border-bottom:1px solid var(--line);margin-bottom:2.2rem}
header p{margin:.2rem 0 1.1rem;color:var(--soft);font:.86rem/1.5 ui-sans-serif,system-ui,sans-serif}
h1,h2,h3,h4,h5,h6{line-height:1.25;font-weight:600;margin:2.1em 0 .6em}
header h1{margin:0;font-size:2.1rem;letter-spacing:-.012em;overflow-wrap:anywhere}
.prose h1{font-size:1.6rem}h2{font-size:1.4rem}h3{font-size:1.18rem}h4,h5,h6{font-size:1rem}
.prose>:first-child{margin-top:0}.prose>:last-child{margin-bottom:0}
section{margin:0 0 1.5rem;overflow-wrap:break-word}
p,ul,ol,blockquote{margin:.85em 0}
li{margin:.22em 0}li>ul,li>ol{margin:.2em 0}
a{color:var(--accent);text-decoration-thickness:1px;text-underline-offset:.16em}
a:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
blockquote{border-left:2px solid var(--line);padding-left:1.1rem;color:var(--soft)}
hr{border:0;border-top:1px solid var(--line);margin:2.2em 0}
pre,code{font-family:ui-monospace,"SF Mono",SFMono-Regular,"Cascadia Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.84rem}
code{background:var(--block);padding:.1em .32em;border-radius:3px}
pre{margin:.85em 0;line-height:1.5;white-space:pre-wrap;overflow-wrap:anywhere;tab-size:4}
pre code{background:none;padding:0;font-size:inherit}
.prose pre,.code>pre:first-of-type{background:var(--block);padding:.8rem 1rem;border-radius:5px}
.code{position:relative}
.code>pre{margin:0}
.code::before{content:attr(data-count);position:absolute;right:calc(100% + .9rem);top:.84rem;color:var(--soft);
font:.74rem/1.5 ui-monospace,Menlo,Consolas,monospace;font-variant-numeric:tabular-nums}
.name{margin:0 0 .3rem;color:var(--soft);font:.78rem/1.5 ui-monospace,Menlo,Consolas,monospace}
.name~pre:first-of-type{margin-top:0}
.code:has(>.name)::before{top:2.2rem}
.code>pre.out,.code>pre.err,.code>pre.error{background:none;padding:.65rem 1rem 0;border-radius:0}
.code>pre.err{color:var(--soft)}
.code>pre.error{color:var(--bad);border-left:2px solid var(--bad);padding:.1rem 0 .1rem calc(1rem - 2px);margin-top:.65rem}
.raw pre,pre.math,.math{color:var(--soft)}
.elsewhere{color:var(--soft);font-size:.9em}
figure{margin:.9rem 0 0}
img{max-width:100%;height:auto}
figure img{background:#fff;border-radius:3px}
table{border-collapse:collapse;font-size:.92rem;margin:1em 0;display:block;overflow-x:auto}
th,td{text-align:left;padding:.32rem .9rem .32rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600}
iframe{display:block;width:100%;border:0;margin:.7rem 0 0;resize:vertical;overflow:auto;background:transparent}
.c{color:var(--c);font-style:italic}.s{color:var(--s)}.k{color:var(--k)}.n{color:var(--n)}
@media (max-width:58rem){.code::before{position:static;display:block;margin-bottom:.2rem}.code:not([data-count=""])::before{
content:"run " attr(data-count)}}
@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#555;--line:#ccc;--block:#f6f6f4;--accent:#000;--bad:#8a1c12;
--c:#555;--s:#333;--k:#000;--n:#000}
body{padding:0;font-size:10.5pt}.code::before{right:auto;left:-2.2rem}section{break-inside:auto}pre,figure,table,blockquote{
break-inside:avoid}h1,h2,h3{break-after:avoid}
a[href^=http]::after{content:" (" attr(href) ")";color:var(--soft);font-size:.82em;overflow-wrap:anywhere}}
"""

FRAME_STYLE = (
    ":root{color-scheme:light dark}body{margin:0;font:14px/1.5 system-ui,sans-serif}table{border-collapse:collapse}"
    "th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid #8884}img{max-width:100%}"
)
