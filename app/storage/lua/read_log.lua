-- Reads what a fold of one log needs, as of one moment; closes a log that holds nothing.
--
-- KEYS: log, bins, the shard's set of logs. ARGV: name of the log in the set, bytes to read at most
-- (the last page may exceed them), number of the first block to read. Returns {folds, table,
-- blocks}; the first two are empty unless the first block is that of the log.

local FEWEST = 32

local most, first = tonumber(ARGV[2]), tonumber(ARGV[3])
local blocks, size = {}, 0
local length
repeat
  -- Redis walks to where a page begins: pages as long as what was read before make it walk seldom.
  local room = (most - size) / math.max(size, 1)
  length = math.max(FEWEST, math.floor(#blocks * math.min(1, room)))
  local from = first + #blocks
  local page = redis.call('LRANGE', KEYS[1], from, from + length - 1)
  for _, block in ipairs(page) do
    blocks[#blocks + 1] = block
    size = size + #block
  end
until #page < length or size >= most

if first > 0 then
  return { '', '', blocks }
end
if #blocks == 0 then
  redis.call('SREM', KEYS[3], ARGV[1])
  return { '0', '', blocks }
end
local stored = redis.call('HMGET', KEYS[2], 'folds', 'table')
return { stored[1] or '0', stored[2] or '', blocks }
