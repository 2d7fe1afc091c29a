"""What a cell in Python defines, uses and changes, by small cells."""

import pytest

from cellwright.notebook.dependencies.model import CellNames
from cellwright.notebook.dependencies.reading import names_of
from requirements import requirement

BUILT_IN = frozenset(
    {
        "print",
        "range",
        "len",
        "sorted",
        "open",
        "next",
        "super",
        "setattr",
        "list",
        "map",
        "str",
        "ValueError",
        "Exception",
        "globals",
        "exec",
    }
)


def words(names: frozenset[str]) -> str:
    return " ".join(sorted(names - BUILT_IN))


def read(source: str, language: str = "python") -> CellNames:
    names = names_of(source, language)
    assert names.unknown == ""
    return names


@requirement("stale:python:flow")
@pytest.mark.parametrize(
    ("source", "defines", "perhaps", "uses"),
    [
        ("x = a + 1", "x", "", "a"),
        ("x = 1\ny = x", "x y", "", ""),
        ("y = x\nx = 1", "x y", "", "x"),
        ("if a:\n    x = 1", "", "x", "a"),
        ("if a:\n    x = 1\nprint(x)", "", "x", "a x"),
        ("if a:\n    x = 1\nelse:\n    x = 2\nprint(x)", "x", "", "a"),
        ("if __name__ == '__main__':\n    x = 1\nprint(x)", "x", "", ""),
        ("for i in a:\n    x = i", "", "i x", "a"),
        ("for i in range(3):\n    x = i", "i x", "", ""),
        ("for i in a:\n    print(p)\n    p = i", "", "i p", "a p"),
        ("while True:\n    x = f()\n    if x: break", "x", "", "f"),
        ("while a:\n    x = 1", "", "x", "a"),
        ("try:\n    import q\nexcept ImportError:\n    q = None", "q", "", "ImportError"),
        ("try:\n    x = f()\nexcept E as e:\n    pass", "", "e x", "E f"),
        ("try:\n    x = f()\nfinally:\n    y = 1", "x y", "", "f"),
        ("with open(p) as f:\n    x = f.read()", "f x", "", "<any file> <files> <folder> p"),
        ("match a:\n    case [x, Point(z=0)]:\n        y = 1\n    case _:\n        y = 2", "y", "x", "Point a"),
        ("if (x := f()):\n    y = x", "x", "y", "f"),
        ("a and (x := 1)", "", "x", "a"),
        ("del x", "x", "", "x"),
        ("x, (y, *z) = a", "x y z", "", "a"),
        ("x = y = a", "x y", "", "a"),
        ("x: T = a\nz: S", "x", "", "S T a"),
        ("import os.path, numpy as np\nfrom a import b as c", "c np os", "", ""),
        ("await f(x)\nasync with a as b:\n    y = await b\nasync for i in c:\n    pass", "b y", "i", "a c f x"),
        ("[x for x in a if x in b]", "", "", "a b"),
        ("y = {k: [v for v in w] for k, w in a.items()}", "y", "", "a"),
        ("any((y := x) for x in a)", "", "y", "a any"),
        ("f'{a:{b}} {c!r}'", "", "", "a b c"),
        ("raise E(x)\ny = 1", "", "", "E x"),
        ("global x\nx = 1", "x", "", ""),
        ("", "", "", ""),
    ],
)
def test_what_is_bound_and_read(source: str, defines: str, perhaps: str, uses: str) -> None:
    names = read(source)
    assert (words(names.defines), words(names.perhaps), words(names.uses)) == (defines, perhaps, uses)


@requirement("stale:python:functions")
@pytest.mark.parametrize(
    ("source", "uses", "later"),
    [
        ("def f(a, b=q):\n    return a + g", "q", "g"),
        ("@d\ndef f(a: T) -> S: return g", "S T d g", "g"),
        ("@property\ndef f(a): return g", "property", "g"),
        ("def f():\n    x = 1\n    def inner(): return x + g\n    return inner", "", "g"),
        ("f = lambda x, y=q: x + g", "q", "g"),
        ("class f(Base):\n    k = K\n    n = k\n    def m(self): return k + g", "Base K", "g k"),
        ("def f():\n    return [i + g for i in h]", "", "g h"),
        ("def f():\n    try:\n        pass\n    except E as e:\n        return e", "", "E"),
        ("def f():\n    from m import g\n    return g", "", ""),
        ("def f():\n    del x\n    return x", "", ""),
        ("def f():\n    return g()\ng = 1\nx = 2\nf()", "", "g"),
        ("def f(): return g + x\nx = 1\nf()", "g", "g x"),
        ("def f(): return h()\ndef h(): return g\nf()", "g", "h"),
        ("class f:\n    def m(self): return g\nx = f()", "g", "g"),
    ],
)
def test_what_functions_and_classes_use_later(source: str, uses: str, later: str) -> None:
    names = read(source)
    assert words(names.uses) == uses
    assert words(names.later["f"].uses) == later


@requirement("stale:python:functions")
def test_what_functions_do_with_what_they_are_given() -> None:
    assert read("def f(a): a.append(1)").later["f"].arguments
    assert read("def f(a):\n    b = a['x']\n    b.sort()").later["f"].arguments
    assert read("def f(*a, k):\n    k['x'] = 1").later["f"].arguments
    assert not read("def f(a):\n    a = a.copy()\n    a.append(1)\n    return a").later["f"].arguments
    assert read("def f(a): g(a, 1)").later["f"].calls == {"g": frozenset({"<arguments>"})}
    assert read("def f(): g(DATA)").later["f"].calls == {"g": frozenset({"DATA"})}
    assert words(read("def f(): LOG.append(1)").later["f"].changes) == "LOG"
    assert words(read("def f():\n    d = LOG\n    d.append(1)").later["f"].changes) == "LOG"
    assert words(read("def f():\n    global n\n    n = 1").later["f"].perhaps) == "n"
    assert read("def f():\n    exec(t)").later["f"].opaque == "exec"
    assert read("def f():\n    yield 1\nx = f()").spent == {"x"}
    methods = read(
        "class A:\n def __init__(self): self.a = 1\n def s(self): self.a += 1\n def t(self): return self.s()\n def u(self): pass"
    )
    assert words(methods.later["A"].methods) == "s t"
    called = read("f(a, b[0], k=[c], *d)")
    assert called.calls == {"f": frozenset("abcd")}
    assert called.commands == {"f"}
    assert words(read("def f(a): a.pop()\nf(xs)").changes) == "xs"
    assert words(read("def g(a): a.pop()\ndef f(b): g(b)\nf(xs)").changes) == "xs"
    assert read("a = A(x)\nb = a.step(y)").methods == {"a": frozenset({"step"})}
    assert read("a = A(x)").code["a"] == {"A", "x"}


@requirement("stale:python:changes")
@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("df['x'] = 1", "df"),
        ("df.loc[m, 'x'] = 1", "df"),
        ("a.b.c = 1", "a"),
        ("del d[k]", "d"),
        ("x += 1", "x"),
        ("d['n'] += 1", "d"),
        ("xs.append(1)", "xs"),
        ("d.setdefault(k, []).append(1)", "d"),
        ("d[k].append(1)", "d"),
        ("df.dropna(inplace=True)", "df"),
        ("df.dropna(inplace=False)", ""),
        ("np.add(a, b, out=c)", "c"),
        ("model.fit(X, y)", "model"),
        ("z = model.fit_transform(X)", "model"),
        ("v = xs.pop()", "xs"),
        ("line = f.readline()", "f"),
        ("v = next(it)", "it"),
        ("random.shuffle(xs)", "<random of python> xs"),
        ("heapq.heappush(h, 1)", "h"),
        ("setattr(o, n, 1)", "o"),
        ("t.add_(1)", "t"),
        ("a.do()\n1", "a"),
        ("a.do();", "a"),
        ("a.do()", ""),
        ("v = a.do()", ""),
        ("df.head()\ndf.plot()\nprint(df)\n1", ""),
        ("df2 = df.append(r)", ""),
        ("y = x if x not in seen and not seen.add(x) else 0", "seen"),
        ("[m.fit(X) for m in models]", "models"),
        ("for d in (a, b):\n    d['x'] = 1", "a b"),
        ("for k, v in d.items():\n    v.append(1)", "d"),
        ("for i, r in enumerate(rows):\n    r['x'] = i", "rows"),
        ("b = a\nb.append(1)", "a"),
        ("b = a[1:]\nb[0] = 1", "a"),
        ("b = a.T\nb[0] = 1", "a"),
        ("b = [a]\nb.append(1)", ""),
        ("b = [a]\nb[0].append(1)", "a"),
        ("y = df['t']\ndf = 1\ny[0] = 1", ""),
        ("y = df['t']\ny[0] = 1", "df"),
        ("b = a + 1\nb.append(1)", ""),
        ("b = a.copy()\nb.append(1)", ""),
        ("b = f(a)\nb['x'] = 1", ""),
        ("df = df[df.x > 1]\ndf['y'] = 1", ""),
        ("t = df[['x']]\nt['y'] = 1", ""),
        ("opt = Adam(net.parameters())\nopt.step()", "net"),
        ("x = 1\nx += a", ""),
        ("xs = []\nxs.append(a)", ""),
        ("np.random.seed(0)", ""),
        ("plt.rcParams['x'] = 1", "plt"),
        ("plt.style.use('x')\nsns.set_theme()\npd.set_option('a', 1)\npd.options.display.x = 1", "pd plt sns"),
        ("plt.plot(x)\nsns.heatmap(df)\n1", ""),
        ("warnings.filterwarnings('ignore')", "warnings"),
        ("sys.path.append(p)", "sys"),
        ("os.environ['A'] = 'b'", "<environment>"),
    ],
)
def test_what_is_changed_in_place(source: str, changes: str) -> None:
    names = read(source)
    assert words(names.changes) == changes
    assert names.changes <= names.uses


@requirement("stale:python:shared")
def test_what_shares_an_object() -> None:
    assert read("b = a").aliases == {"b": {"a"}}
    assert read("b = a[1:]").aliases == {"b": {"a"}}
    assert read("y = df['t']").inside == {"y": {"df[t]"}}
    assert read("b = [a, c]").inside == {"a": {"b[0]"}, "c": {"b[1]"}}
    assert read("w = m.coef").inside == {"w": {"m[coef]"}}
    assert read("xs.append(a)").inside == {"a": {"xs"}}
    assert read("b = list(a)").aliases == {}
    assert read("it = iter(a)").spent == {"it"}
    assert read("rng = np.random.default_rng(0)").spent == {"rng"}


@requirement("stale:python:world")
@pytest.mark.parametrize(
    ("source", "defines", "changes", "uses"),
    [
        ("np.random.rand(3)", "", "<random>", "<random> np"),
        ("np.random.seed(1)", "<random>", "", "np"),
        ("x = df.sample(3)", "x", "<random>", "<random> df"),
        ("x = df.sample(3, random_state=1)", "x", "", "df"),
        ("train_test_split(x)", "", "<random>", "<random> train_test_split x"),
        ("torch.manual_seed(0)\ntorch.rand(2)", "<random of torch>", "", "torch"),
        ("random.random()", "", "<random of python>", "<random of python> random"),
        ("from random import randint\nrandint(1, 2)", "randint", "<random of python>", "<random of python>"),
        ("df.to_csv('o.csv')", "<file o.csv>", "<any file>", "<folder> df"),
        ("df.to_csv(p)", "", "<any file> <files>", "<folder> df p"),
        ("p = './o.csv'\npd.read_csv(p)", "p", "", "<file o.csv> <files> <folder> pd"),
        ("pd.read_csv('https://a.b/c')", "", "", "pd"),
        ("open('/a', 'w')", "<file /a>", "<any file>", ""),
        ("open('/a', 'a')", "", "<any file> <file /a>", "<file /a>"),
        ("Path('/a').write_text('x')", "<file /a>", "<any file>", "Path"),
        ("x = Path('/a').read_text()", "x", "", "<file /a> <files> Path"),
        ("os.chdir('/a')", "<folder>", "", "os"),
        ("os.chdir(x)", "", "<folder>", "<folder> os x"),
        ("np.save('/a.npy', x)", "<file /a.npy>", "<any file>", "np x"),
        ("plt.savefig(n)", "", "", "n plt"),
    ],
)
def test_what_is_shared_beside_variables(source: str, defines: str, changes: str, uses: str) -> None:
    names = names_of(source, "python")
    assert (words(names.defines), words(names.changes), words(names.uses)) == (defines, changes, uses)


@requirement("stale:python:opaque")
@pytest.mark.parametrize(
    "source",
    [
        "exec(t)", "eval(t)", "globals()['x'] = 1", "locals()", "vars()", "%run a.py", "_", "__", "_12", "_i3", "Out[3]", "%store -r",
        "get_ipython().run_line_magic(m, '')", "get_ipython().push({'x': 1})", "%%unknown\nx", "%unknown", "import __main__",
        "def f(): exec(t)\nf()", "sys.modules['__main__'].x = 1",
    ],
)  # fmt: skip
def test_what_hides_names_says_so(source: str) -> None:
    assert read(source).opaque


@requirement("stale:python:opaque")
def test_star_imports_are_told_apart() -> None:
    names = read("from math import *\nfrom .a import *\nx = sin(y)")
    assert (names.stars, names.opaque, words(names.uses)) == ({"math", ".a"}, "", "sin y")
    assert read("for _ in a: print(_)").opaque == ""


@requirement("stale:python:magic")
@pytest.mark.parametrize(
    ("source", "defines", "uses"),
    [
        ("%time x = f(a)", "x", "a f"),
        ("%timeit -n 10 x = f(a)", "", "a f"),
        ("%%time\nx = a", "x", "a"),
        ("%%timeit y = b\nx = a + y", "", "a b"),
        ("%%capture out --no-stderr\nx = a", "out x", "a"),
        ("%%time\n%%capture out\nx = a", "out x", "a"),
        ("%%prun\nx = a", "x", "a"),
        ("%%bash\nx=1; y = zzz(", "", ""),
        ("%%bash --out res --err bad\nls", "bad res", ""),
        ("%%html\n<b>x</b>", "", ""),
        ("%%javascript\nvar x = y", "", ""),
        ("%%writefile a.txt\nx = y", "<file a.txt>", ""),
        ("%store -r x y", "x y", ""),
        ("%store x", "", "x"),
        ("%matplotlib inline\nx = a", "x", "a"),
        ("%cd {p}/$q", "", "<folder> p q"),
        ("!ls {a.b} $c {1..3} $$HOME", "", "a c"),
        ("x = !cat {f}", "x", "f"),
        ("x = %pwd", "x", ""),
        ("x?", "", "x"),
        ("??a.b", "", "a"),
        ("await f(x)", "", "f x"),
        ("    x = a\n    y = b", "x y", "a b"),
        (">>> x = a", "x", "a"),
        ("df.query('a > @limit')", "", "df limit"),
    ],
)
def test_what_ipython_adds(source: str, defines: str, uses: str) -> None:
    names = read(source)
    assert (words(names.defines), words(names.uses), names.opaque) == (defines, uses, "")
