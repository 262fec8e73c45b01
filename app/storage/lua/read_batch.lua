-- Pins the first blocks of a log as a batch, unless one is pinned, and reads it; closes a log that
-- holds nothing.
--
-- KEYS: log, mark of how far it is folded, the shard's set of logs. ARGV: name of the log in the set,
-- bytes to pin at most (the last page may exceed them), life of the mark in seconds. Returns {number
-- of the batch, its blocks, the mark if that is damaged}.

-- include batch_mark

local FEWEST = 32

local log, mark, logs = unpack(KEYS)
local member, most, life = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local number, pinned, damaged = read_mark(mark)

if pinned > 0 then
  local blocks = redis.call('LRANGE', log, 0, pinned - 1)
  if #blocks > 0 then
    return { string.format('%.0f', number), blocks, damaged }
  end
end

local blocks, size = {}, 0
local length
repeat
  -- Redis walks to where a page begins: pages as long as what was read before make it walk seldom.
  local room = (most - size) / math.max(size, 1)
  length = math.max(FEWEST, math.floor(#blocks * math.min(1, room)))
  local page = redis.call('LRANGE', log, #blocks, #blocks + length - 1)
  for _, block in ipairs(page) do
    blocks[#blocks + 1] = block
    size = size + #block
  end
until #page < length or size >= most

if #blocks == 0 then
  redis.call('SREM', logs, member)
  return { '0', blocks, damaged }
end

-- By the time, too: numbers grow even where a mark is lost.
local time = redis.call('TIME')
number = math.max(number + 1, time[1] * 1000000 + time[2])
redis.call('SET', mark, sealed_mark(mark, number, #blocks), 'EX', life)
return { string.format('%.0f', number), blocks, damaged }
