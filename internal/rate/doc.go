// Package rate answers: may this agent send a request now, and may it read more of a response?
//
//	--rate or an order -> Schedule.At(now) -> Limit of the whole crawl
//	Limit, and this agent's share -> Limiter.Set
//	dispatcher -> Limiter.Room -> Begin -> Turn -> worker -> Send (waits) -> request
//	                                            `-> Next (waits) -> bytes of the response -> Receive
//
// A Limiter bounds one agent. Shares of several agents never sum above one (package shares), so all agents together
// stay below the Limit.
//
// # What holds
//
// In any time t an agent with the part r of the limit sends at most r·(t + Slack) + 1 requests. With a limit of bits it
// reads at most r·(t + Slack + Ahead) bytes and one read, plus one read for each response whose server was silent
// before. Such a read has at most 128 bytes (Turn.Next).
//
//   - The time that counts is that of the request, not that of the visit: a new connection is open before Send. So
//     changing latencies of servers do not bunch requests.
//   - A visit without a request uses nothing of the rate: its turn goes to another visit.
//   - The size of a response is known only after the request. Send takes the mean size of the last responses. Expect
//     corrects this to the length in the header, up to the 64 kB that a server can send before they are read, and
//     Receive and End to the true size. If responses grow suddenly, Next slows the reading down: half
//     of the rate is for the oldest request, so that pages are finished one after the other, and half goes around.
//   - With a limit of bits, requests are sent 300 ms ahead of the reading, and twice as fast while there is nothing to
//     read. So the rate is used when servers become slower, fall silent, or send less than expected. If no server
//     sends anything for 2 s, they hurry no more: the network may be away, and all servers may answer at once later.
//     Nor do they on a machine that has too much to do, where responses may have come that nobody has read yet.
//   - A limiter makes up for at most Slack of the time in which it could have sent a request and did not.
//
// A Limiter may be used concurrently. It starts no goroutine.
package rate
