-- Reads the head of one log of conversions; closes a log that holds nothing.
--
-- KEYS: log, the shard's set of logs. ARGV: name of the log in the set, bytes to read at most (the
-- last page may exceed them). Returns {digest of the blocks, blocks}.

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
  redis.call('SREM', KEYS[2], ARGV[1])
end
return { redis.sha1hex(table.concat(blocks)), blocks }
