"""Words and sentences that answers are made of."""

import random

SUBJECTS = (
    "the scheduler", "a worker", "the operator", "our parser", "the second replica", "a stale lock", "the exporter",
    "the gateway", "one of the tests", "the migration", "a slow disk", "the certificate", "her patch", "the cache",
    "an old client", "the release note", "the planner", "a background job", "the message queue", "the archive",
)  # fmt: skip
VERBS = (
    "restarts", "rejects", "waits for", "rewrites", "measures", "hides", "reports", "depends on", "outlives", "copies",
    "verifies", "drops", "replaces", "throttles", "renames", "inspects", "delays", "collects", "exposes", "retries",
)  # fmt: skip
OBJECTS = (
    "every third request", "the configuration file", "two open connections", "its own log", "the shared index",
    "a partial upload", "the previous snapshot", "an expired token", "all pending writes", "the health check",
    "a temporary directory", "the error budget", "nine of ten batches", "the oldest entry", "a duplicate key",
    "the retry counter", "whatever was left", "an empty response", "the load balancer", "the audit trail",
)  # fmt: skip
TAILS = (
    "before anyone notices", "although nobody asked for it", "once the timeout is over", "in most of the cases we saw",
    "because the clock was wrong", "as the manual says", "unless the flag is set", "while the others keep serving",
    "which explains the spike at noon", "so the numbers add up again", "after a short pause", "on every second host",
    "and that is documented", "if memory allows", "without losing data", "until somebody restarts it by hand",
)  # fmt: skip
CJK = (
    "调度程序在重启之前会等待所有请求完成。", "如果配置文件有误，服务将拒绝启动。", "缓存命中率在下午三点突然下降。",
    "我们建议先备份数据，再执行迁移。", "第二个副本比第一个慢了大约两秒。", "日志里没有任何异常，但是用户看到了错误。",
    "请检查证书是否已经过期。", "这个问题只在高负载下才会出现。", "新版本修复了三个已知的漏洞。",
    "团队决定把发布推迟到下周一。", "每个节点都有自己的锁文件。", "测试通过之后才能合并代码。",
    "磁盘空间不足会导致写入失败。", "网关把流量平均分给四台主机。", "老客户端仍然使用旧的接口。",
    "监控系统在凌晨发出了两次警报。", "文档已经更新，示例可以直接运行。", "他们用一个简单的脚本解决了问题。",
)  # fmt: skip
FIRST = ("Ada", "Boris", "Chen", "Dalia", "Emeka", "Fatima", "Goran", "Hana", "Ivo", "Jun", "Kofi", "Lena", "Mio")
LAST = ("Almeida", "Brandt", "Castillo", "Dubois", "Eriksen", "Fischer", "Gupta", "Haddad", "Ito", "Jansen", "Kovac")
CITIES = (
    "Oslo",
    "Lima",
    "Hanoi",
    "Accra",
    "Turin",
    "Quito",
    "Perth",
    "Kyoto",
    "Leeds",
    "Bern",
    "Izmir",
    "Cork",
    "Riga",
)
NOUNS = ("order", "user", "invoice", "device", "ticket", "job", "route", "asset", "lease", "report", "metric", "batch")
ANSWERS = (
    "The capital of Peru is Lima.", "It is 4.", "Use `systemctl restart nginx` and look at the journal afterwards.",
    "There are 17 files that match; the newest is from Tuesday.", "No, the flag was removed in version 2.3.",
    "The function returns the index of the first element that is larger than its neighbours.",
)  # fmt: skip


def sentence(rng: random.Random) -> str:
    """One English sentence."""
    parts = [rng.choice(SUBJECTS), rng.choice(VERBS), rng.choice(OBJECTS)]
    if rng.random() < 0.6:
        parts.append(rng.choice(TAILS))
    text = " ".join(parts)
    return text[0].upper() + text[1:] + "."


def prose(rng: random.Random, sentences: int) -> str:
    """Paragraphs of some sentences each."""
    found = [sentence(rng) for _ in range(sentences)]
    return "\n\n".join(" ".join(found[i : i + 5]) for i in range(0, len(found), 5))


def cjk(rng: random.Random, sentences: int) -> str:
    """Chinese sentences in an order of their own, each at most twice."""
    found = list(CJK) + list(CJK)
    rng.shuffle(found)
    return "".join(found[:sentences])


def person(rng: random.Random) -> str:
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def cut(rng: random.Random, text: str, least: float = 0.6) -> str:
    """The text as max_tokens would have cut it, anywhere in its later part."""
    return text[: int(len(text) * rng.uniform(least, 0.98))]
