-- Pages of many hosts for wrk, from a list of URLs:
--
--   orbweaver testweb --generate --hosts 20000 --pages-mean 20 --no-truth --http-port 8088 --urls urls.txt
--   wrk -t2 -c64 -d10s -s docs/lab/wrk.lua http://127.0.0.1:8088/ -- urls.txt [gzip]

function init(args)
  requests = {}
  local gzip = args[2] == "gzip" and "Accept-Encoding: gzip\r\n" or ""
  for line in io.lines(args[1]) do
    local host, target = line:match("https?://([^/]+)(/.*)$")
    requests[#requests + 1] = "GET " .. target .. " HTTP/1.1\r\nHost: " .. host .. "\r\n" .. gzip .. "\r\n"
  end
  next = 0
end

function request()
  next = next % #requests + 1
  return requests[next]
end
