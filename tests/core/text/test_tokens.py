"""The estimate against real vocabularies: small texts of our own with the counts that three tokenizers gave for them."""

# ruff: noqa: RUF001  letters of other scripts are the subject here

import base64
import hashlib
import json
import math
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.core.text.tokens import MOST_TOKENS_PER_CHARACTER, estimate_tokens
from requirements import requirement

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
"""A busy machine is no finding."""

PROSE = """\
The river had been rising since dawn, and by noon the lower fields were gone. Nobody in the village spoke of leaving. They
moved the animals to the chapel hill, carried the seed corn up to the lofts, and waited in the kitchens with the lamps lit,
listening to the water work at the foundations. When the miller's boy came in, soaked and out of breath, he said only that the
bridge was still there. It was enough. Somebody laughed, somebody else put the kettle on, and for the first time that day the
old woman by the stove closed her eyes.
"""

PYTHON = '''\
@dataclass(frozen=True)
class Window:
    """A stretch of samples and what was measured in it."""

    start: int
    samples: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.samples) / len(self.samples)


def windows(values: Sequence[float], width: int, *, overlap: int = 0) -> Iterator[Window]:
    if overlap >= width:
        raise ValueError(f"overlap {overlap} must be below width {width}")
    for start in range(0, len(values) - width + 1, width - overlap):
        yield Window(start, tuple(values[start : start + width]))
'''

TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/app/pipeline/clean.py", line 48, in normalise
    frame["price"] = frame["price"].astype(float)
                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.12/site-packages/pandas/core/generic.py", line 6643, in astype
    new_data = self._mgr.astype(dtype=dtype, copy=copy, errors=errors)
ValueError: could not convert string to float: '1,299.00'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/app/pipeline/__main__.py", line 17, in <module>
    main(sys.argv[1:])
pipeline.errors.BadColumn: column 'price' holds text; first bad row is 231
"""

RECORDS = [
    {
        "id": "c41f",
        "type": "code",
        "source": "import pandas as pd\ndf = pd.read_csv('sales.csv')\ndf.head()",
        "runs": 3,
    },
    {"id": "9be0", "type": "markdown", "source": "## Result\n\nThe *northern* region leads by 12 %.", "runs": None},
    {"id": "77aa", "type": "code", "source": "df.groupby('region').total.sum()", "runs": 12, "ok": True},
]

MARKDOWN = """\
# Getting started

1. Install the package: `pip install example`
2. Run **one** of the commands below.

| Command | What it does | Default |
|---------|--------------|--------:|
| `serve` | Starts the server on a free port | 8765 |
| `check` | Looks for [common mistakes](docs/mistakes.md) | - |

> Note: the first start takes longer, because the index is built.

```bash
example serve --port 9000 --log-level=debug
```
"""

CHINESE = """\
清晨的集市已经热闹起来。卖豆腐的老人把木桶放在路边,一边擦汗一边和邻居说话。孩子们背着书包跑过石桥,笑声传得很远。
数据分析的第一步是检查缺失值,然后统一日期格式,最后再画图比较各个地区的变化趋势。如果结果不合理,就要回到原始文件重新核对。
"""

JAPANESE = """\
駅前の小さな喫茶店は、朝の七時に開く。常連の客は新聞を広げ、いつもの席でコーヒーを待っている。
このノートブックでは、まずデータを読み込み、欠損値を確認してから、月ごとの平均をグラフに表示します。エラーが出た場合はセルをもう一度実行してください。
"""

KOREAN = """\
아침 시장은 벌써 사람들로 붐볐다. 두부를 파는 노인은 길가에 나무통을 내려놓고 이웃과 이야기를 나누었다.
데이터 분석의 첫 단계는 빠진 값을 확인하는 것이다. 그다음 날짜 형식을 통일하고 지역별 변화를 그래프로 비교한다.
"""

GERMAN = """\
Die Messwerte für den März fehlen, weil der Fühler während der Überprüfung ausgeschaltet war. Außerdem wurden zwölf
ungewöhnlich hohe Größen gestrichen; die Begründung steht im Anhang. Für die übrigen Monate ließ sich der Verlauf bestätigen.
"""

RUSSIAN = """\
Утром на рынке уже было шумно. Старик поставил ведро у дороги и разговорился с соседом. Первый шаг анализа данных состоит в
проверке пропусков, затем нужно привести даты к одному виду и сравнить изменения по областям.
"""

EMOJI = "👍 done 🎉🎉 next: 🧪 tests, 📦 package, 🚀 ship! 👩‍💻👨‍👩‍👧 ❤️ 🇫🇷🇯🇵 ✅ ok ❌ failed ⚠️ careful 😀😅🤔 🌍🌡️ 1️⃣ 2️⃣ 3️⃣ 🏴‍☠️🐍📓"

HTML = """\
<table border="1" class="dataframe">
  <thead><tr style="text-align: right;"><th></th><th>region</th><th>total</th></tr></thead>
  <tbody>
    <tr><th>0</th><td>north</td><td>1204.5</td></tr>
    <tr><th>1</th><td>south &amp; east</td><td>998.25</td></tr>
  </tbody>
</table>
"""


def noise(size: int) -> bytes:
    return b"".join(hashlib.sha256(bytes([number])).digest() for number in range(size // 32))


def table() -> str:
    rows = [[math.sin(row * 7 + column) * 10 ** (column - 1) for column in range(5)] for row in range(12)]
    return "\n".join(f"{index:>4}" + "".join(f"{value:>12.6f}" for value in row) for index, row in enumerate(rows))


def comma_separated() -> str:
    lines = [
        f"2024-{1 + row % 12:02}-{1 + row % 28:02},{row * 37 % 991},{row * 13.37:.2f},store {row % 5}"
        for row in range(20)
    ]
    return "\n".join(["date,count,total,place", *lines])


@dataclass(frozen=True)
class Sample:
    text: str
    claude: int
    cl100k: int
    o200k: int

    @property
    def tokens(self) -> int:
        return max(self.claude, self.cl100k, self.o200k)


SAMPLES = {
    "prose": Sample(PROSE, 127, 122, 123),
    "Python": Sample(PYTHON, 151, 139, 142),
    "traceback": Sample(TRACEBACK, 191, 181, 179),
    "compact JSON": Sample(json.dumps(RECORDS, separators=(",", ":")), 102, 99, 99),
    "indented JSON": Sample(json.dumps(RECORDS, indent=2), 145, 148, 148),
    "Markdown": Sample(MARKDOWN, 124, 113, 113),
    "HTML": Sample(HTML, 114, 110, 110),
    "number table": Sample(table(), 377, 399, 399),
    "small integers": Sample(str([number * 7 % 10 for number in range(120)]), 241, 360, 360),
    "CSV": Sample(comma_separated(), 327, 345, 345),
    "base64": Sample(base64.b64encode(noise(480)).decode(), 455, 456, 436),
    "hex": Sample(noise(256).hex(), 293, 283, 286),
    "Chinese": Sample(CHINESE, 129, 143, 97),
    "Japanese": Sample(JAPANESE, 128, 129, 94),
    "Korean": Sample(KOREAN, 135, 124, 72),
    "German": Sample(GERMAN, 87, 74, 54),
    "Russian": Sample(RUSSIAN, 111, 101, 54),
    "emoji": Sample(EMOJI, 115, 116, 82),
}


@requirement("tokens:estimate:calibrated")
@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())
def test_the_estimate_is_near_the_largest_real_count(sample: Sample) -> None:
    ratio = estimate_tokens(sample.text) / sample.tokens
    assert 0.9 <= ratio <= 1.5


@requirement("tokens:estimate:monotone")
@PATIENT
@given(st.text(), st.text(), st.text())
def test_adding_text_never_lowers_the_estimate(before: str, text: str, after: str) -> None:
    assert estimate_tokens(before + text + after) >= estimate_tokens(text)


@requirement("tokens:estimate:monotone")
@PATIENT
@given(st.text(alphabet="aAbB01 \n.,\tZé漢"), st.text(alphabet="aAbB01 \n.,\tZé漢"))
def test_adding_text_of_few_kinds_never_lowers_the_estimate(before: str, text: str) -> None:
    assert estimate_tokens(before + text) >= max(estimate_tokens(before), estimate_tokens(text))


@requirement("tokens:estimate:bounded")
@PATIENT
@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_the_estimate_of_any_string_is_bounded_by_its_length(text: str) -> None:
    assert (estimate_tokens(text) > 0) == (text != "")
    assert estimate_tokens(text) <= MOST_TOKENS_PER_CHARACTER * len(text)
