"""Every language that has a validator: good code passes, broken code is found."""

from collections.abc import AsyncIterator

import pytest

from cellwright.scratch.validation.check import NotInstalled, load, not_installed
from cellwright.scratch.validation.languages import (
    LANGUAGES,
    SEED_LANGUAGES,
    Grammar,
    Language,
    canonical_language,
    find_language,
)
from cellwright.scratch.validation.model import CellToCheck
from cellwright.scratch.validation.validators import Validators
from cellwright.workers.pool import WorkerPool
from requirements import requirement

pytestmark = pytest.mark.anyio

SEED_CODES = (
    "json",
    "yaml",
    "yml",
    "md",
    "py",
    "js",
    "ts",
    "tsx",
    "jsx",
    "rs",
    "c",
    "h",
    "cpp",
    "hpp",
    "sh",
    "css",
    "html",
    "htm",
    "java",
    "go",
    "rb",
    "toml",
    "php",
    "cs",
    "txt",
)
LONG_NAMES = {
    "md": "markdown",
    "py": "python",
    "js": "javascript",
    "ts": "typescript",
    "rs": "rust",
    "sh": "bash",
    "rb": "ruby",
    "cs": "csharp",
    "txt": "text",
    "yml": "yaml",
    "htm": "html",
}

SAMPLES: dict[str, tuple[str, str]] = {
    "json": (
        """\
{"name": "x", "list": [1, 2.5e3, true, null, "\\u00e9"]}""",
        """\
{"name": "x",}""",
    ),
    "yaml": (
        """\
name: x
list:
  - 1
  - {a: b}
text: |
  more
  lines
""",
        """\
name: [1, 2
other: 3
""",
    ),
    "toml": (
        """\
title = "x"
[table]
key = [1, 2]
when = 1979-05-27T07:32:00Z
""",
        """\
title =
[table
""",
    ),
    "markdown": (
        """\
# Title

Text with [a link](#part).

## Part

```python
x = 1
```
""",
        """\
# Title

```python
x = 1
""",
    ),
    "python": (
        """\
import os

@decorator
async def f(a, /, *, b: int = 1) -> str:
    match a:
        case [x, *_] if x > 1:
            return f'{x!r:>10}'
    async with b as c, d():
        await c

result = await f(1, b=2)
""",
        """\
def f(a:
    return a
""",
    ),
    "javascript": (
        """\
export class A extends B {
  #x = 1;
  static async *all() { for await (const y of z) yield y?.a ?? `${y}`; }
}
const { a, ...rest } = await import('./m.js');
""",
        """\
function f( {
  return 1;
}
let = ;
""",
    ),
    "jsx": (
        """\
const A = ({ x }) => <><B {...x} on={() => 1}>text {x}</B></>;
""",
        """\
const A = () => <B>text</C;
""",
    ),
    "typescript": (
        """\
interface A<T extends object = {}> { readonly x?: T[keyof T]; }
export const f = <T,>(a: A<T>): a is A<T> => !!a satisfies boolean;
enum E { A = 1, B }
""",
        """\
interface A { x: ; }
const y: number = ;
""",
    ),
    "tsx": (
        """\
export const A = ({ x }: { x: number }): JSX.Element => <B<number> x={x as number} />;
""",
        """\
const A = <B x={ />;
""",
    ),
    "rust": (
        """\
use std::fmt;
#[derive(Debug)]
pub struct A<'a, T: Clone> { x: &'a T }
impl<'a, T: Clone> A<'a, T> {
    pub async fn f(&self) -> Result<(), Box<dyn fmt::Debug>> { let Some(y) = g()? else { return Ok(()) }; Ok(y) }
}
""",
        """\
fn main() { let x = ; println!("{}", x }
""",
    ),
    "c": (
        """\
#include <stdio.h>
struct point { int x, y; };
static inline int f(const char *s) { return s ? *s : 0; }
int main(void) {
    struct point p = { .x = 1, .y = 2 };
    for (int i = 0; i < 3; i++) printf("%d", p.x);
    return 0;
}
""",
        """\
int main(void) {
    int x = ;
    return 0;
""",
    ),
    "c-header": (
        """\
#pragma once
#ifndef A_H
#define A_H
namespace n {
template <typename T> class A { public: virtual ~A() = default; };
}
#endif
""",
        """\
struct a { int x; int ;;; y( };
""",
    ),
    "cpp": (
        """\
#include <vector>
template <typename T> concept C = requires(T t) { t.size(); };
auto f(const std::vector<int> &v) -> int { auto g = [&](auto x) mutable { return x + v[0]; }; return g(1); }
""",
        """\
class A { public: int f( { return 1; }
""",
    ),
    "bash": (
        """\
#!/bin/bash
set -euo pipefail
for f in "$@"; do
  if [[ -f $f && ${f##*.} == txt ]]; then
    cat <<EOF | sort -u > "$f.out"
$(wc -l < "$f")
EOF
  fi
done
""",
        """\
if [ -f x ]; then
  echo yes
""",
    ),
    "css": (
        """\
@media (min-width: 10em) { a > b:hover::before { color: rgb(1 2 3 / 50%); margin: calc(1px + 2%) } }
""",
        """\
a { color: red; b {{ }
""",
    ),
    "html": (
        """\
<!doctype html>
<html><head><title>x</title></head><body><p>a<br>b<p>c<img src=x></body></html>
""",
        """\
<div><p class='a>x</div>
""",
    ),
    "java": (
        """\
package a.b;
import java.util.*;
public sealed interface S<T> permits R {
  default T f(List<? extends T> l) { return switch (l.size()) { case 0 -> null; default -> l.get(0); }; }
}
record R(int x) implements S<Integer> {}
""",
        """\
class A { void f( { int x = ; } }
""",
    ),
    "go": (
        """\
package main

import "fmt"

type N interface{ ~int | ~float64 }

func Sum[T N](xs ...T) (s T) {
\tfor _, x := range xs {
\t\ts += x
\t}
\treturn
}

func main() {
\tgo func() { defer recover() }()
\tfmt.Println(Sum(1, 2))
}
""",
        """\
package main
func main( { fmt.Println(1 }
""",
    ),
    "ruby": (
        """\
class A < B
  attr_reader :x
  def initialize(x, *rest, y: 1, **opts, &block)
    @x = rest.map { |e| e&.to_s }.select(&:any?)
  end
end
puts <<~T if x
  text #{x}
T
""",
        """\
class A
  def f(x
    x +
  end
""",
    ),
    "php": (
        """\
<?php
declare(strict_types=1);
namespace A;
final class B { public function __construct(private readonly int $x) {}
  public function f(?array $a): int { return match (true) { $a === null => 0, default => count($a) }; } }
""",
        """\
<?php
function f( { return 1; }
""",
    ),
    "csharp": (
        """\
using System;
namespace A;
public record P(int X);
class C<T> where T : new() {
  public required string N { get; init; }
  async Task<int> F() => await G() is { X: > 1 } p ? p.X : 0;
}
""",
        """\
class A { void F( { int x = ; } }
""",
    ),
    "sql": (
        """\
SELECT a.x, count(*) AS n
FROM a LEFT JOIN b ON a.id = b.id
WHERE a.y IN (1, 2)
GROUP BY a.x
ORDER BY n DESC LIMIT 5;
""",
        """\
SELEC a FRM b WHERE;
""",
    ),
    "scala": (
        """\
package a
case class P(x: Int)
object M { def f[T](xs: List[T]): Option[T] = xs match { case h :: _ => Some(h); case Nil => None } }
""",
        """\
object M { def f( = { val x = } }
""",
    ),
    "kotlin": (
        """\
data class P(val x: Int = 1)
suspend fun f(p: P?): String = when { p == null -> "a"; else -> "${p.x}" }
""",
        """\
fun f( { val x = }
""",
    ),
    "swift": (
        """\
struct P: Codable { let x: Int }
func f(_ p: P?) throws -> String { guard let p else { return "" }; return "\\(p.x)" }
""",
        """\
func f( { let x = }
""",
    ),
    "lua": (
        """\
local t = { a = 1, [2] = 'x' }
function t:f(...) for k, v in pairs(self) do print(k, ...) end return #t end
""",
        """\
function f( local x = end
""",
    ),
    "perl": (
        """\
use strict;
my %h = (a => 1);
foreach my $k (sort keys %h) { print "$k $h{$k}\\n" if $k =~ /^a/; }
""",
        """\
sub f { my ($x = ; }
""",
    ),
    "haskell": (
        """\
module A where
import Data.List (sort)
f :: Ord a => [a] -> [a]
f xs = case xs of
  [] -> []
  (x:_) -> sort (x : xs)
""",
        """\
module A where
f x = case x of (
""",
    ),
    "ocaml": (
        """\
type t = A of int | B
let rec f = function A x when x > 0 -> x | A _ | B -> 0
let () = print_int (f (A 1))
""",
        """\
let f x = match x with | -> in ;;
""",
    ),
    "ocaml-interface": (
        """\
type t
val f : t -> int list -> (string, t) result
""",
        """\
val f : -> int =
""",
    ),
    "julia": (
        """\
struct P{T<:Real}
    x::T
end
f(p::P; k=1) = [p.x^i for i in 1:k if isodd(i)]
""",
        """\
function f(x
  x +
end
""",
    ),
    "elixir": (
        """\
defmodule A do
  def f([h | _] = l, opts \\\\ []), do: l |> Enum.map(&(&1 + h)) |> IO.inspect(opts)
end
""",
        """\
defmodule A do
  def f(x do
    x +
""",
    ),
    "dart": (
        """\
class A<T> { final T? x; const A({this.x}); Future<int> f() async => await g() ?? 1; }
""",
        """\
class A { void f( { int x = ; }
""",
    ),
    "powershell": (
        """\
function Get-A {
  param([string]$Name = 'x')
  Get-ChildItem | Where-Object { $_.Length -gt 1 } | ForEach-Object { "$Name $_" }
}
""",
        """\
function Get-A { param([string $x) if ( { }
""",
    ),
    "xml": (
        """\
<?xml version="1.0"?>
<a xmlns:b="u"><b:c d='1'/>text<!-- x --><![CDATA[<]]></a>
""",
        """\
<a><b></a>
""",
    ),
    "hcl": (
        """\
resource "a" "b" {
  count = var.x ? 1 : 0
  tags  = { for k, v in local.m : k => upper(v) }
}
""",
        """\
resource "a" {
  x =
""",
    ),
    "dockerfile": (
        """\
FROM python:3.12 AS build
WORKDIR /app
COPY --from=build /a /b
RUN pip install x && \\
    rm -rf /tmp
CMD ["python", "-m", "x"]
""",
        """\
FORM python
RUNN x
""",
    ),
    "make": (
        """\
CC := gcc
all: a.o
\t$(CC) -o $@ $^

%.o: %.c
\t$(CC) -c $<
.PHONY: all
""",
        """\
all: a
\techo
ifeq (a,b
x = $(foo
""",
    ),
    "zig": (
        """\
const std = @import("std");
pub fn main() !void {
    const x: u32 = if (true) 1 else 2;
    std.debug.print("{d}\\n", .{x});
}
""",
        """\
pub fn main( !void { const x = ; }
""",
    ),
    "solidity": (
        """\
// SPDX-License-Identifier: MIT
pragma solidity ^0.8.0;
contract A { mapping(address => uint) b; function f() external view returns (uint) { return b[msg.sender]; } }
""",
        """\
contract A { function f( { uint x = ; }
""",
    ),
    "fortran": (
        """\
program a
  implicit none
  integer :: i
  do i = 1, 3
    print *, i
  end do
end program a
""",
        """\
program a
  integer ::
  do i = 1,
end program
""",
    ),
    "nix": (
        """\
{ pkgs ? import <nixpkgs> {} }:
let x = "a"; in pkgs.mkShell { buildInputs = with pkgs; [ git ]; name = "${x}"; }
""",
        """\
{ pkgs }: let x = in pkgs.mkShell { a = ; }
""",
    ),
    "objective-c": (
        """\
#import <Foundation/Foundation.h>
@interface A : NSObject
@property (nonatomic, copy) NSString *x;
- (int)f:(int)y;
@end
@implementation A
- (int)f:(int)y { return [self.x length] + y; }
@end
""",
        """\
@interface A : NSObject
- (int)f:(int { return [x ; }
""",
    ),
    "svelte": (
        """\
<script>
  let x = 1;
</script>
{#if x > 0}
  <p on:click={() => x++}>{x}</p>
{:else}
  <b>no</b>
{/if}
""",
        """\
{#if x}
<p>{x</p>
""",
    ),
}


@pytest.fixture(scope="module")
async def validators() -> AsyncIterator[Validators]:
    running = Validators(WorkerPool())
    yield running
    await running.pool.close()


def test_every_language_with_a_validator_has_its_samples() -> None:
    assert {language.name for language in LANGUAGES if language.checker} == SAMPLES.keys()


@requirement("scratch:validation:languages")
@pytest.mark.parametrize("name", sorted(SAMPLES))
async def test_good_code_passes_and_broken_code_is_found(validators: Validators, name: str) -> None:
    good, broken = SAMPLES[name]
    cells = [CellToCheck("good", name, good), CellToCheck("broken", name, broken)]
    passed, found = await validators.validate(cells, {}, 30.0)
    assert (passed.status, passed.diagnostics) == ("valid", ())
    assert found.status in {"invalid", "warning"}
    assert found.diagnostics[0].line is not None
    assert found.language == name


@requirement("scratch:validation:names")
def test_the_codes_of_the_seed_and_their_long_names_are_one_and_the_same() -> None:
    assert len(SEED_CODES) == 25
    assert all(find_language(code) in SEED_LANGUAGES for code in SEED_CODES)
    assert {code: canonical_language(code.upper()) for code in LONG_NAMES} == LONG_NAMES
    assert len(LANGUAGES) - len(SEED_LANGUAGES) >= 20


def test_no_name_means_two_languages() -> None:
    names = [name for language in LANGUAGES for name in (language.name, *language.aliases)]
    assert sorted(names) == sorted(set(names))


@requirement("scratch:validation:sure")
async def test_only_trusted_grammars_call_code_invalid(validators: Validators) -> None:
    cells = [CellToCheck(name, name, SAMPLES[name][1]) for name in SAMPLES]
    found = {one.cell_id for one in await validators.validate(cells, {}, 30.0) if one.status == "invalid"}
    trusted = {
        "json",
        "yaml",
        "toml",
        "python",
        "javascript",
        "jsx",
        "rust",
        "html",
        "java",
        "go",
        "csharp",
        "ruby",
        "php",
    }
    # The others' samples lack a bracket or an end, but for that of typescript.
    assert found == trusted | {"c", "c-header", "cpp", "bash", "css"}


@requirement("scratch:validation:unknown")
async def test_other_languages_and_plain_text_are_valid_and_say_that_nothing_was_checked(
    validators: Validators,
) -> None:
    cells = [CellToCheck("a", "txt", "any ( thing"), CellToCheck("b", "Brainfuck ", "+[")]
    text, other = await validators.validate(cells, {}, 30.0)
    assert (text.status, text.valid, text.checked, text.language) == ("skipped", True, False, "text")
    assert (other.status, other.valid, other.checked, other.language) == ("skipped", True, False, "brainfuck")
    assert "'Brainfuck '" in other.diagnostics[0].message


@requirement("scratch:validation:not-installed")
def test_a_grammar_that_is_not_installed_is_named_with_the_extra_that_brings_it() -> None:
    language = Language("klingon", grammars=(Grammar("tree_sitter_klingon"),))
    with pytest.raises(NotInstalled) as missing:
        load(language, with_schema=False)
    result = not_installed(CellToCheck("a", "klingon", ""), missing.value)
    assert result.status == "skipped"
    assert "tree-sitter-klingon" in result.diagnostics[0].message
    assert "cellwright[languages]" in result.diagnostics[0].message


@requirement("scratch:validation:places")
async def test_columns_count_characters_and_every_finding_has_its_place(validators: Validators) -> None:
    text = "let a = 'é😀'; let b = ;\nlet c = 1;\n"
    (found,) = await validators.validate([CellToCheck("a", "js", text)], {}, 30.0)
    (finding,) = found.diagnostics
    assert (finding.line, finding.column) == (1, text.index("= ;") + 1)
    assert finding.source == "tree-sitter-javascript"


async def test_php_is_code_with_and_without_its_opening_tag(validators: Validators) -> None:
    cells = [CellToCheck("a", "php", "echo 1;\n"), CellToCheck("b", "php", "echo (1;\n")]
    good, broken = await validators.validate(cells, {}, 30.0)
    assert (good.status, broken.status) == ("valid", "invalid")


@requirement("scratch:validation:text")
async def test_text_that_is_no_text_is_said_to_be_that(validators: Validators) -> None:
    cells = [CellToCheck(name, name, "a\nb\ud800c") for name in ("json", "py", "go", "md")]
    found = await validators.validate(cells, {}, 30.0)
    assert [(one.status, one.diagnostics[0].line, one.diagnostics[0].column) for one in found] == [
        ("invalid", 2, 2)
    ] * 4
