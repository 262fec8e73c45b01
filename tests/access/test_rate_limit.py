"""How many requests a key may make, and what its caller is told."""

from app.access.rate_limit import RateLimit


def test_so_many_in_a_second_and_then_no_more():
    now = 0.0
    limit = RateLimit(10, lambda: now)

    assert [limit.take() for _ in range(11)] == [True] * 10 + [False]
    assert limit.headers() == {
        "RateLimit-Policy": '"key";q=10;w=1',
        "RateLimit": '"key";r=0;t=1',
    }
    now = 0.35
    assert [limit.take() for _ in range(4)] == [True] * 3 + [False]
    now = 100.0
    assert sum(limit.take() for _ in range(20)) == 10
