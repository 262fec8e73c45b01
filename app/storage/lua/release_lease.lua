-- Ends a lease for who holds it. KEYS: lease. ARGV: token. Returns 1 or 0.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
