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
// [Options.Strategy] chooses. It makes one request at a time to a host and waits two
// seconds between two of them. It obeys robots.txt (RFC 9309) and slows down when a server
// asks for it. It refuses private addresses. Each of these is the default, and none needs
// an option.
//
// Each response goes to the archive first (WARC/1.1 with a CDXJ index, in [Options.Dir]),
// then to [Options.OnPage]. Only after that is its URL finished.
//
// # Resume
//
// The directory is the crawl. If [Options.Dir] holds one, Crawl continues it: URLs that are
// finished are not fetched again. So a program that is started again after a kill, a crash
// or a full disk continues where it was, without any code. [Options.Overwrite] begins anew.
//
// A page is given to OnPage at least once. It is given again if its URL was not finished:
//
//   - OnPage had not returned when the process was killed, or had returned less than 100 ms
//     earlier (1 s if the machine lost power).
//   - OnPage returned an error other than [ErrStop].
//
// # Back-pressure
//
// OnPage runs in the goroutine that fetched the page. A slow OnPage slows the crawl: at most
// [Options.Workers] fetched pages wait for it, and nothing else is buffered.
//
// # Many crawls in one process
//
// Crawls with different directories may run at the same time. The package changes nothing
// that belongs to the whole process: it sets no signal handler, never exits, and registers
// nothing globally. [Options.Memory] bounds the caches of one crawl. The limit of the
// garbage collector (runtime/debug.SetMemoryLimit, GOMEMLIMIT) is the program's business.
package orbweaver
