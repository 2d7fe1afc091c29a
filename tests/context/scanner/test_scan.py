"""Scans of small projects of every kind, with the facts a person would state of them; and of trees that mean harm."""

import ast
import os
import shutil
from pathlib import Path

import pytest

import cellwright
from cellwright.context.scanner.python_imports import statements
from cellwright.context.scanner.scan import scan
from requirements import requirement

PROJECTS: dict[str, tuple[dict[str, str], dict[str, object]]] = {
    "python": (
        {
            "pyproject.toml": '[project]\nname = "shop"\ndescription = "Sells."\nrequires-python = ">=3.11"\n'
            'dependencies = ["fastapi>=0.1", "SQLAlchemy"]\n[project.scripts]\nshop = "shop.web.run:main"\n',
            "uv.lock": "",
            "src/shop/__init__.py": '"""The shop."""\n',
            "src/shop/web/__init__.py": '"""What browsers see."""\n',
            "src/shop/web/run.py": "from shop.store import items\nfrom . import views\n",
            "src/shop/web/views.py": "from shop.store.items import (\n    Item,\n)\n",
            "src/shop/store/__init__.py": "",
            "src/shop/store/items.py": '"""Things that are sold.\n\nfrom shop.web import views\n"""\nclass Item: ...\n',
            "src/shop/store/settings.py": "",
            "tests/test_items.py": "import shop.store.items\n",
            "docs/conf.py": "",
            ".gitignore": "secret/\n",
            "secret/x.py": "",
        },
        {
            "name": "shop", "type": "backend", "stack": ("Python", "FastAPI", "SQLAlchemy"), "runtime": "Python >=3.11",
            "package_manager": "uv", "description": "Sells.", "pattern": "modular",
            "modules": {
                "shop": ("The shop.", ["src/shop/__init__.py core"], ()),
                "store": (
                    "3 Python files",
                    ["src/shop/store/settings.py config", "src/shop/store/items.py core", "tests/test_items.py test"],
                    (),
                ),
                "web": (
                    "What browsers see.",
                    ["src/shop/web/run.py entry", "src/shop/web/views.py core"],
                    ("store",),
                ),
            },
        },
    ),
    "typescript": (
        {
            "package.json": '{"name": "board", "dependencies": {"react": "19", "express": "5"}, "devDependencies": {"typescript": "5"},'
            ' "engines": {"node": ">=20"}, "main": "./src/server/index.ts"}',
            "pnpm-lock.yaml": "",
            "src/server/index.ts": "import { draw } from '../ui/draw.js'\n// import x from '../nothing'\n",
            "src/ui/draw.tsx": "export { line } from '@/ui/line'\nconst a = require('../model')\n",
            "src/ui/line.ts": "/** Lines. */\nexport const line = 1\n",
            "src/model/index.ts": "export default 1\n",
            "src/ui/draw.test.ts": "import './draw'\n",
        },
        {
            "type": "fullstack", "stack": ("TypeScript", "React", "Express"), "runtime": "Node.js >=20", "package_manager": "pnpm",
            "modules": {
                "model": ("1 TypeScript file", ["src/model/index.ts entry"], ()),
                "server": ("1 TypeScript file", ["src/server/index.ts entry"], ("ui",)),
                "ui": (
                    "2 TypeScript files",
                    ["src/ui/draw.tsx core", "src/ui/line.ts core", "src/ui/draw.test.ts test"],
                    ("model",),
                ),
            },
        },
    ),
    "rust": (
        {
            "Cargo.toml": '[package]\nname = "calc"\nedition = "2021"\n[dependencies]\ntokio = "1"\n',
            "src/main.rs": "mod parse;\nmod eval;\nuse crate::parse::tree;\n",
            "src/parse/mod.rs": "pub mod tree;\n",
            "src/parse/tree.rs": "",
            "src/eval/mod.rs": "use crate::parse::tree::Node;\n",
        },
        {
            "runtime": "Rust, edition 2021", "package_manager": "cargo", "stack": ("Rust", "Tokio"),
            "modules": {
                "src": ("1 Rust file", ["src/main.rs entry"], ("eval", "parse")),
                "eval": ("1 Rust file", ["src/eval/mod.rs entry"], ("parse",)),
                "parse": ("2 Rust files", ["src/parse/mod.rs entry", "src/parse/tree.rs core"], ()),
            },
        },
    ),
    "go": (
        {
            "go.mod": "module example.org/x/tool\n\ngo 1.22\n\nrequire (\n\tgithub.com/spf13/cobra v1.8.0\n)\n",
            "cmd/tool/main.go": 'package main\nimport (\n\t"fmt"\n\tst "example.org/x/tool/internal/store"\n)\n',
            "internal/store/store.go": "// Package store keeps.\npackage store\n",
            "internal/store/store_test.go": "package store\n",
        },
        {
            "name": "tool", "runtime": "Go 1.22", "package_manager": "go modules", "stack": ("Go", "Cobra"),
            "modules": {
                "tool": ("1 Go file", ["cmd/tool/main.go entry"], ("store",)),
                "store": ("1 Go file", ["internal/store/store.go core", "internal/store/store_test.go test"], ()),
            },
        },
    ),
    "java": (
        {
            "pom.xml": "<project><artifactId>bank</artifactId><properties><java.version>21</java.version></properties><dependencies>"
            "<dependency><artifactId>spring-boot-starter-web</artifactId></dependency></dependencies></project>",
            "src/main/java/org/bank/web/BankApplication.java": "package org.bank.web;\nimport org.bank.money.Account;\n",
            "src/main/java/org/bank/money/Account.java": "package org.bank.money;\n",
            "src/test/java/org/bank/money/AccountTest.java": "import org.bank.money.Account;\n",
        },
        {
            "name": "bank", "type": "backend", "runtime": "Java 21", "package_manager": "maven", "stack": ("Java", "Spring Boot"),
            "modules": {
                "money": (
                    "1 Java file",
                    ["src/main/java/org/bank/money/Account.java core", "src/test/java/org/bank/money/AccountTest.java test"],
                    (),
                ),
                "web": ("1 Java file", ["src/main/java/org/bank/web/BankApplication.java entry"], ("money",)),
            },
        },
    ),
    "csharp": (
        {
            "Api/Api.csproj": '<Project Sdk="Microsoft.NET.Sdk.Web"><PropertyGroup><TargetFramework>net8.0</TargetFramework>'
            '</PropertyGroup><ItemGroup><PackageReference Include="Microsoft.EntityFrameworkCore" Version="8" /></ItemGroup></Project>',
            "Api/Program.cs": "using Shop.Domain;\nnamespace Shop.Api;\n",
            "Domain/Order.cs": "namespace Shop.Domain\n{\n}\n",
        },
        {
            "type": "backend", "runtime": ".NET net8.0", "package_manager": "nuget",
            "stack": ("C#", "ASP.NET Core", "Entity Framework Core"),
            "modules": {
                "Api": ("1 C# file", ["Api/Program.cs entry"], ("Domain",)),
                "Domain": ("1 C# file", ["Domain/Order.cs core"], ()),
            },
        },
    ),
    "notebooks": (
        {"requirements.txt": "# what is needed\npandas>=2\n-e .\n", "a.ipynb": "{}", "sub/b.ipynb": "{}", "helpers.py": ""},
        {"type": "notebooks", "stack": ("Python", "pandas", "Jupyter notebooks"), "package_manager": "pip", "modules": None},
    ),
}  # fmt: skip


def put(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


@requirement("context:scan:facts")
@pytest.mark.parametrize("kind", PROJECTS)
def test_the_facts_are_those_a_person_would_state(tmp_path: Path, kind: str) -> None:
    files, wanted = PROJECTS[kind]
    project = scan(str(put(tmp_path, files))).project
    for name, value in wanted.items():
        if name != "modules":
            assert getattr(project, name) == value, name
    if wanted["modules"] is not None:
        found = {
            name: (module.description, [f"{one.path} {one.role}" for one in module.key_files], module.dependencies)
            for name, module in project.modules.items()
        }
        assert found == wanted["modules"]


@requirement("context:scan:facts")
def test_our_own_layers_are_found(tmp_path: Path) -> None:
    """A real project of some size, whose rules on imports another test holds in place."""
    source = Path(cellwright.__file__).parent
    shutil.copytree(source, tmp_path / "src" / "cellwright", ignore=shutil.ignore_patterns("__pycache__"))
    modules = scan(str(tmp_path)).project.modules
    assert {"core", "storage", "jupyter", "scratch", "context", "app"} <= set(modules)
    assert modules["core"].dependencies == ()
    assert set(modules["storage"].dependencies) == {"core", "notebook", "system"}
    assert set(modules["context"].dependencies) == {"core", "notebook", "storage", "system"}
    assert {"core", "storage", "jupyter", "scratch", "context"} <= set(modules["app"].dependencies)
    assert "src/cellwright/core/errors.py" in [one.path for one in modules["core"].key_files]


PROGRAM = '''
"""import quoted
from quoted import too
"""
import one, two.three as t  # import comment
from . import near
from .pkg.deep import (  # a comment (with brackets)
    a,
    b,  # another)
)
import four; import five
try: import six
except ImportError: pass
if TYPE_CHECKING: from seven import eight
    from nine \\
        import ten
# import commented
x = "import string"
y = \'\'\'
import quoted_again
\'\'\'
important = __import__("dynamic")
from eleven import *
from broken import (
'''


@requirement("context:scan:imports")
def test_the_imports_of_a_program_are_those_that_python_would_run() -> None:
    assert [" ".join(one.split()) for one in statements(PROGRAM) if "(" not in one] == [
        "import one, two.three as t",
        "from . import near",
        "import four",
        "import five",
        "import six",
        "from seven import eight",
        "from nine \\ import ten",
        "from eleven import *",
    ]
    bracketed = [one for one in statements(PROGRAM) if "(" in one]
    assert [one.partition("(")[0] for one in bracketed] == ["from .pkg.deep import "]
    assert bracketed[0].endswith("# another)\n)")


@requirement("context:scan:imports")
def test_our_own_programs_import_what_ast_says() -> None:
    for file in sorted(Path(cellwright.__file__).parent.rglob("*.py"))[::3]:
        text = file.read_text(encoding="utf-8")
        wanted = sum(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(ast.parse(text)))
        assert len([one for one in statements(text) if one]) == wanted, file


@requirement("context:scan:hostile")
def test_a_tree_that_means_harm_is_scanned_all_the_same(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "package.json": '{"name": ["x"], "dependencies": [1], "bin": 7}',
            "pyproject.toml": "[project\n",
            "Cargo.toml": "package = 1\n",
            "go.mod": "\0\0",
            "pom.xml": "<!DOCTYPE a [<!ENTITY b '" + "x" * 10_000 + "'>]><a>&b;</a>",
            "x.csproj": "<Project>" * 10_000,
            "deep/" * 60 + "a.py": "import " + "a." * 5_000 + "b\n",
            "ok.py": "import " + ", ".join(f"m{number}" for number in range(5_000)) + "\n",
            "bad.py": "from . import (\n" * 2_000,
            ".gitignore": "[" * 500 + "\n" + "**/" * 200 + "z\n" + "*a" * 200 + "\n",
            "a" * 200: "",
            "blank.rs": "\n" * 200_000,
            "blank.go": "import (" * 30_000,
            "open.ts": "/*" * 100_000,
            "import.ts": "import " * 30_000,
            "open.py": "from a import (" * 15_000,
            "lines.py": " # c\n" * 40_000,
            "sub/pom.xml": "<build>" * 30_000,
            "sub/go.mod": "a." * 100_000,
            "sub/setup.py": "install_requires=[" * 10_000,
        },
    )
    (tmp_path / "circle").symlink_to(tmp_path)
    (tmp_path / "outside").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "binary.py").write_bytes(os.urandom(10_000))
    found = scan(str(tmp_path))
    paths = set(found.files)
    assert "ok.py" in paths
    assert not any(path.startswith(("circle", "outside")) for path in paths)
    assert "pipe.py" not in paths
