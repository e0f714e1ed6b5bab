package testweb

import "fmt"

// An App is a host whose pages have their text and links from scripts, as a crawl with a browser finds it. A report
// compares it with what was fetched.
type App struct {
	Name  string
	Pages []AppPage
	Files []string // URLs of the files that its pages need
}

// An AppPage is a page that a crawl must find.
type AppPage struct {
	URL string
	// Mark is a text that the page shows when its scripts have run.
	Mark string
	// Needs are the files without which the page does not show it.
	Needs []string
}

// An AppReport says which pages and files of an App were fetched. A page is filled if the files that it needs were
// fetched too. The server cannot see for which page a file was fetched, so the pages of a crawl that ran no scripts at
// all are found but not filled.
type AppReport struct {
	Name   string `json:"name"`
	Pages  int64  `json:"pages"`
	Found  int64  `json:"found"`
	Filled int64  `json:"filled"`
	Files  int64  `json:"files"`
	Loaded int64  `json:"loaded"`
	// Missed has the pages that were not found, Unfilled those that were found and not filled, and Unloaded the files
	// that were not fetched: the first 1,000 each.
	Missed   []string `json:"missed,omitempty"`
	Unfilled []string `json:"unfilled,omitempty"`
	Unloaded []string `json:"unloaded,omitempty"`
}

// String says in plain words how much of the application was fetched.
func (r AppReport) String() string {
	return fmt.Sprintf("%d of %d pages found, %d of them filled; %d of %d files", r.Found, r.Pages, r.Filled, r.Loaded,
		r.Files)
}

// reportApps compares the applications with the URLs that were answered.
func (w *Web) reportApps() (all []AppReport) {
	if len(w.cfg.Apps) == 0 {
		return nil
	}
	answers := w.Fetched()
	note := func(list *[]string, url string) {
		if len(*list) < maxMissed {
			*list = append(*list, url)
		}
	}
	for _, app := range w.cfg.Apps {
		r := AppReport{Name: app.Name, Pages: int64(len(app.Pages)), Files: int64(len(app.Files))}
		for _, p := range app.Pages {
			if answers[p.URL] == 0 {
				note(&r.Missed, p.URL)
				continue
			}
			r.Found++
			filled := true
			for _, need := range p.Needs {
				filled = filled && answers[need] > 0
			}
			if !filled {
				note(&r.Unfilled, p.URL)
				continue
			}
			r.Filled++
		}
		for _, f := range app.Files {
			if answers[f] == 0 {
				note(&r.Unloaded, f)
				continue
			}
			r.Loaded++
		}
		all = append(all, r)
	}
	return all
}
