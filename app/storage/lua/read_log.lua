-- Reads what a fold of one log needs, as of one moment; closes a log that holds nothing.
--
-- KEYS: log, bins, the shard's set of logs. ARGV: name of the log in the set, bytes to read at most
-- (the last page may exceed them). Returns {folds, table, blocks}.

local PAGE = 32

local blocks, size = {}, 0
repeat
  local page = redis.call('LRANGE', KEYS[1], #blocks, #blocks + PAGE - 1)
  for _, block in ipairs(page) do
    blocks[#blocks + 1] = block
    size = size + #block
  end
until #page < PAGE or size >= tonumber(ARGV[2])

if #blocks == 0 then
  redis.call('SREM', KEYS[3], ARGV[1])
  return { '0', '', blocks }
end
local stored = redis.call('HMGET', KEYS[2], 'folds', 'table')
return { stored[1] or '0', stored[2] or '', blocks }
