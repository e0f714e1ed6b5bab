// Package urlfrontier answers: which URLs may a crawler of others fetch now, and what has it said of them?
//
//	PutURLs -> Store: known? -> journal -> queue ----due, not blocked, delay over----> GetURLs
//	                                         ^------ lease ends, or refetch date <-----'
//
// It serves the gRPC API of URL Frontier (crawler-commons), with which StormCrawler and others keep their URLs outside
// of the crawler. The client fetches; politeness is a matter of queues, delays and leases, as the API has them.
//
//   - A crawl is a namespace. A URL is known once in a crawl; as the API says, two queues of a crawl never share one.
//   - A queue has the URLs that the client gives one key, usually a host. It gives URLs if it is not blocked, its delay
//     since the last time is over, and its limit of completed URLs is not reached.
//   - GetURLs leases URLs: until the lease ends they are given to nobody else. A client that says what became of a URL
//     (KnownURLItem) ends its lease. A completed URL has no date at which it may be fetched again.
//   - Of the queues that may give URLs, the one that could do so first is next.
//
// # Durability
//
// The journal (package journal) has every change, and no call is answered before its changes are synced. So a kill or a
// power failure loses no acknowledged URL, delay, block, limit or lease. Calls that wait at the same time share a sync.
// The records are those of pb/state.proto. A live change and the replay of its record run the same function, so they
// cannot differ. If a change cannot be written, the Store answers nothing more.
//
// # Bounds
//
// All URLs are in RAM, for Config.MemoryBytes. When that is full, new URLs are refused (FAIL: send it again later),
// and all other calls work. Only changes of known URLs that need more than an eighth more are refused as well. Keys,
// IDs, URLs and metadata are bounded, and one GetURLs gives at most MostURLs.
// When the journal has grown to twice the size of its snapshot, a new snapshot is written, while calls go on.
//
// Package frontier is not used. It gives one link of a host at a time, waits for the end of the visit, and knows
// addresses; this API gives many URLs of a key that the client chooses, and frees them by time.
package urlfrontier
