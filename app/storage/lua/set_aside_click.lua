-- Takes an unreadable click out of the open ones; its hash expires by itself.
--
-- KEYS: the shard's sorted set of open clicks, counters. ARGV: click id.
-- ZREM comes first: a full store lets it pass, and then the rest.

-- include click_names

if redis.call('ZREM', KEYS[1], name_of_click(ARGV[1]), ARGV[1]) > 0 then
  redis.call('HINCRBY', KEYS[2], 'damaged', 1)
end
