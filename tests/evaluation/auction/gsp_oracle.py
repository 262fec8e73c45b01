"""The auction of one page, word for word, in plain Python."""


def auction_oracle(bids, scores, ads, *, mainline, sidebar, alpha, reserve, mainline_reserve):
    """(row, slot, CPC) of every ad that is shown, best first."""
    ranked = []
    for row, (bid, score, ad) in enumerate(zip(bids, scores, ads, strict=True)):
        power = score**alpha
        rank_score = bid * power
        if rank_score > 0.0 and rank_score >= reserve:
            ranked.append((-rank_score, ad, row, bid, power))
    ranked.sort()

    shown = []
    above = beside = 0
    for place, (negated, _, row, bid, power) in enumerate(ranked):
        rank_score = -negated
        following = -ranked[place + 1][0] if place + 1 < len(ranked) else 0.0
        floor = max(mainline_reserve, reserve)
        if place == above and above < mainline and rank_score >= floor:
            above += 1
            slot = above
        elif beside < sidebar:
            beside += 1
            slot, floor = mainline + beside, reserve
        else:
            break
        shown.append((row, slot, min(max(following, floor) / power, bid)))
    return shown


def auctions_oracle(pages, bids, scores, ads, **settings):
    """{page: (row, slot, CPC) of every ad shown}, rows counted over all pages."""
    found = {}
    for page in sorted(set(pages)):
        rows = [row for row, its in enumerate(pages) if its == page]
        shown = auction_oracle(
            [bids[row] for row in rows],
            [scores[row] for row in rows],
            [ads[row] for row in rows],
            **settings,
        )
        found[page] = [(rows[row], slot, cpc) for row, slot, cpc in shown]
    return found
