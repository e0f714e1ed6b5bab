// Package orbweaver crawls web sites politely, gives your program each page, and keeps
// everything in standard archives.
//
//	_, err := orbweaver.Crawl(ctx, orbweaver.Options{
//		Dir:     "example",
//		Seeds:   []string{"https://example.org/"},
//		Contact: "you@example.org",
//		OnPage: func(ctx context.Context, p *orbweaver.Page) error {
//			fmt.Println(p.URL, p.Title)
//			return nil
//		},
//	})
//
// # What a crawl does
//
// [Crawl] begins at the seeds and follows links within [Options.Scope], in the order that
// [Options.Strategy] chooses. By default it makes one request at a time to a host. After a
// response it waits two seconds before the next request to that host, and half a second before
// a request to another host with the same address or registered domain. It obeys robots.txt
// (RFC 9309), slows down when a server asks for it, and refuses private addresses.
//
// Each response first goes to the archive in [Options.Dir] (WARC/1.1 with a CDXJ index), then
// to [Options.OnPage]. When OnPage has returned, the URL is finished.
//
// # Resume
//
// The directory is the crawl. If [Options.Dir] holds a crawl, Crawl continues it and does not
// fetch finished URLs again. So you continue after a kill, a crash or a full disk by starting
// your program again. [Options.Overwrite] begins anew. Only this package continues its crawls:
// the command "orbweaver crawl" refuses them, and Crawl refuses those of the command.
//
// With [Archive.StoreState] the state of the crawl also goes to a store. Then the same program continues the crawl in
// an empty directory of the same name, on another machine.
//
// OnPage gets each page at least once. It gets a page again in these cases:
//
//   - OnPage had not returned when the process was killed.
//   - OnPage had returned less than about 100 ms before the kill, or 1 s before the machine
//     lost power.
//   - OnPage had returned an error other than [ErrStop].
//   - The agent of a cluster was lost before the agent that takes over knew of the page.
//
// # Back-pressure
//
// OnPage runs in the goroutine that fetched the page. So a slow OnPage slows the crawl. Each
// of [Options.Workers] holds one fetched page at most. The responses of slow servers may wait
// for a worker; their number and memory are bounded, too.
//
// # Many crawls in one process
//
// Crawls with different directories may run at the same time. The package changes nothing
// that belongs to the whole process: it sets no signal handler, never exits, and registers
// nothing globally. [Options.Memory] bounds the caches of one crawl. Your program sets the
// limit of the garbage collector, if it wants one (runtime/debug.SetMemoryLimit, GOMEMLIMIT).
package orbweaver
