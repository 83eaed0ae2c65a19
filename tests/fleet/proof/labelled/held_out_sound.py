"""Sound answers of the held-out set: other languages, other forms."""

import random
from collections.abc import Callable

from labelled.material import CITIES, NOUNS, person, prose, sentence

Recipe = Callable[[random.Random], str]
SPANISH = (
    "El servidor se reinicia cada noche a las dos", "La copia de seguridad terminó sin errores", "Nadie ha tocado esta tabla desde marzo",
    "El cliente antiguo todavía usa la primera versión", "Conviene revisar los permisos antes de seguir", "El disco se llenó de registros viejos",
    "La red entre los dos edificios es lenta", "Hay que renovar el certificado en mayo", "El nuevo equipo llega la semana que viene",
    "La consulta tarda más de lo esperado", "Un índice parcial resolvería el problema", "Las pruebas pasan en todas las máquinas",
)  # fmt: skip
RUSSIAN = (
    "Сервер перезапускается каждую ночь", "Резервная копия создана без ошибок", "Старый клиент использует первую версию",
    "Диск заполнен журналами", "Сеть между зданиями медленная", "Сертификат нужно обновить в мае", "Запрос выполняется дольше обычного",
    "Тесты проходят на всех машинах", "Новый узел появится через неделю", "Права доступа стоит проверить заранее",
)  # fmt: skip
JAPANESE = (
    "サーバーは毎晩二時に再起動します。", "バックアップは正常に終了しました。", "古いクライアントはまだ使われています。", "証明書は五月に更新してください。",
    "ディスクの空き容量が足りません。", "テストはすべて成功しました。", "新しい設定は来週から有効になります。", "ネットワークの遅延が原因でした。",
    "権限を確認してから続けてください。", "この問題は高負荷のときだけ発生します。",
)  # fmt: skip


def _of(sentences: tuple[str, ...], rng: random.Random, joint: str) -> str:
    found = list(sentences)
    rng.shuffle(found)
    return joint.join(found)


def spanish(rng: random.Random) -> str:
    return _of(SPANISH, rng, ". ") + "."


def russian(rng: random.Random) -> str:
    return _of(RUSSIAN, rng, ". ") + "."


def japanese(rng: random.Random) -> str:
    return _of(JAPANESE, rng, "")


def manifests(rng: random.Random) -> str:
    """Kubernetes objects: the same keys again and again."""
    parts = []
    for noun in rng.sample(NOUNS, 7):
        parts.append(
            f"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {noun}-api\n  namespace: {rng.choice(CITIES).lower()}\n"
            f"spec:\n  replicas: {rng.randint(1, 9)}\n  template:\n    spec:\n      containers:\n      - name: {noun}\n"
            f"        image: registry/{noun}:{rng.randint(1, 5)}.{rng.randint(0, 20)}\n        resources:\n          limits:\n"
            f"            memory: {rng.randint(1, 64)}Gi\n            cpu: {rng.randint(1, 32)}"
        )
    return "\n---\n".join(parts)


def big_matrix_of_words(rng: random.Random) -> str:
    rows = [f"| {person(rng)} | " + " | ".join(rng.choice(("yes", "no")) for _ in range(6)) + " |" for _ in range(60)]
    return "| name | a | b | c | d | e | f |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows)


def categories(rng: random.Random) -> str:
    lines = [
        f"{rng.choice(('red', 'green', 'blue'))},{rng.choice(('small', 'medium', 'large'))},{rng.choice(('cotton', 'wool', 'silk'))},{rng.randint(5, 90)}.99"
        for _ in range(80)
    ]
    return "colour,size,fabric,price\n" + "\n".join(lines)


def hex_dump(rng: random.Random) -> str:
    lines = []
    for n in range(40):
        data = rng.randbytes(16) if n % 3 else bytes(16)
        lines.append(f"{n * 16:08x}  {data.hex(' ')}  |{'.' * 16}|")
    return "\n".join(lines)


def checklist(rng: random.Random) -> str:
    return "\n".join(f"- [{rng.choice(' x')}] {sentence(rng)}" for _ in range(25))


def chorus_at_the_end(rng: random.Random) -> str:
    chorus = "\n".join(sentence(rng).rstrip(".") for _ in range(3))
    verses = ["\n".join(sentence(rng).rstrip(".") for _ in range(6)) for _ in range(4)]
    return "\n\n".join([*(f"{verse}\n\n{chorus}" for verse in verses), chorus])


def transcript(rng: random.Random) -> str:
    """Speech as it is written down by a machine: no marks at all."""
    return " ".join(sentence(rng).lower().rstrip(".") for _ in range(30))


def diff(rng: random.Random) -> str:
    hunks = []
    for noun in rng.sample(NOUNS, 8):
        n = rng.randint(1, 400)
        hunks.append(
            f'@@ -{n},3 +{n},3 @@ def {noun}(self):\n     self.log.debug("{noun}")\n-    return self._{noun}\n+    return self._{noun}.copy()\n     # {sentence(rng)}'
        )
    return "```diff\n" + "\n".join(hunks) + "\n```"


def dummy_rows(rng: random.Random) -> str:
    """What is asked for as test data: everything counts upwards."""
    rows = [
        f'{{"id": {n}, "name": "user{n}", "email": "user{n}@example.com", "age": {20 + n * 3 % 50}}}'
        for n in range(1, 60)
    ]
    return "[" + ", ".join(rows) + "]"


def menu(rng: random.Random) -> str:
    entries = [f"{sentence(rng)[:30]} {'.' * rng.randint(20, 50)} {n * 4 + rng.randint(1, 3)}" for n in range(1, 30)]
    return "Contents\n\n" + "\n".join(entries)


def arithmetic(rng: random.Random) -> str:
    lines = []
    for _ in range(25):
        a, b = rng.randint(2, 99), rng.randint(2, 99)
        lines.append(f"{a} × {b} = {a * b}")
    return "\n".join(lines)


def latex(rng: random.Random) -> str:
    steps = [
        rf"&= \frac{{{rng.randint(1, 99)}x^{rng.randint(2, 9)} + {rng.randint(1, 99)}}}{{{rng.randint(2, 99)}}} \\"
        for _ in range(14)
    ]
    return "\\begin{align}\n" + "\n".join(steps) + "\n\\end{align}\n" + sentence(rng)


def glossary(rng: random.Random) -> str:
    words = [("hello", "你好", "привет", "مرحبا"), ("water", "水", "вода", "ماء"), ("house", "房子", "дом", "بيت"), ("bread", "面包", "хлеб", "خبز"),
             ("friend", "朋友", "друг", "صديق"), ("night", "夜", "ночь", "ليل"), ("road", "路", "дорога", "طريق")]  # fmt: skip
    return "\n".join(f"- {' / '.join(row)}: {sentence(rng)}" for row in words)


def template_talk(rng: random.Random) -> str:
    """Explains a chat template and so names its marks."""
    return (
        f"{sentence(rng)} Each message begins with `<|im_start|>` and ends with `<|im_end|>`:\n\n```\n<|im_start|>user\n"
        f"{sentence(rng)}<|im_end|>\n<|im_start|>assistant\n{sentence(rng)}<|im_end|>\n```\n\n{prose(rng, 8)}"
    )


def support(rng: random.Random) -> str:
    """Letters with the same opening and ending."""
    letters = [
        f"Dear {person(rng)},\n\nThank you for contacting our support team. {sentence(rng)} {sentence(rng)}\n\nIf you have any further questions, please do not hesitate to reply to this message.\n\nKind regards,\nThe support team"
        for _ in range(6)
    ]
    return "\n\n---\n\n".join(letters)


RECIPES: tuple[Recipe, ...] = (
    spanish, russian, japanese, manifests, big_matrix_of_words, categories, hex_dump, checklist, chorus_at_the_end, transcript,
    diff, dummy_rows, menu, arithmetic, latex, glossary, template_talk, support,
)  # fmt: skip
