package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// summarize prints what the web observed.
func summarize(out io.Writer, r *testweb.Report) {
	fmt.Fprintf(out, "requests    %s, %s of them for pages; %s\n",
		humanize.Comma(r.Requests), humanize.Comma(r.Pages), humanize.IBytes(uint64(max(r.Bytes, 0))))
	if len(r.Status) > 0 {
		var b strings.Builder
		for _, s := range slices.Sorted(maps.Keys(r.Status)) {
			name := fmt.Sprint(s)
			if s == 0 {
				name = "no answer"
			}
			fmt.Fprintf(&b, ", %s: %s", name, humanize.Comma(r.Status[s]))
		}
		fmt.Fprintf(out, "status      %s\n", b.String()[2:])
	}
	fmt.Fprint(out, compression(r))
	summarizeNotFound(out, r.NotFound)
	fmt.Fprintf(out, "twice       %s\n", plural(int64(len(r.Twice)), "URL"))
	if o := r.Origin; o != nil {
		fmt.Fprintf(out, "hosts       %s of %s\n", humanize.Comma(o.Touched), humanize.Comma(o.Hosts))
		if o.Reachable > 0 {
			fmt.Fprintf(out, "reachable   %s; %s fetched, %s missed, %s beyond\n", plural(o.Reachable, "page"),
				humanize.Comma(o.Fetched), humanize.Comma(o.Missed), humanize.Comma(o.Beyond))
		}
	}
	for _, a := range r.Apps {
		fmt.Fprintf(out, "%-11s %s\n", a.Name, a)
	}
	if f := r.Fresh; f != nil {
		fmt.Fprintf(out, "fresh       %.1f %% of %s on average, %.1f %% now; %s old on average; "+
			"%s served, %s confirmed, %s wrongly\n",
			100*f.Mean.Fresh, plural(f.Copies, "copy"), 100*f.Now.Fresh, f.Mean.Age,
			humanize.Comma(f.Served), humanize.Comma(f.Confirmed), humanize.Comma(f.Wrong))
	}
	if r.Traps.Requests > 0 {
		fmt.Fprintf(out, "traps       %s, the deepest %s deep\n",
			plural(r.Traps.Requests, "request"), humanize.Comma(r.Traps.Deepest))
	}
	if v := r.Views; v != nil {
		fmt.Fprintf(out, "views       %s with %s, at most %s in one\n", humanize.Comma(v.Views),
			plural(v.Files, "file"), plural(v.Most, "request"))
	}
	summarizeViolations(out, r)
}

// compression says how many pages the crawler took compressed, in a line; empty if there were no pages.
func compression(r *testweb.Report) string {
	text := ""
	switch {
	case r.Pages == 0:
		return ""
	case r.Compressible == 0 && r.Compressed == 0:
		text = "none: this web offers no compression"
	case r.Compressible == 0:
		text = fmt.Sprintf("%s of %s, as recorded", humanize.Comma(r.Compressed), plural(r.Pages, "page"))
	default:
		of := plural(r.Compressible, "page")
		if r.Compressible < r.Pages {
			of += " that the web can compress"
		}
		text = fmt.Sprintf("%s of %s (%.0f %%)", humanize.Comma(r.Compressed), of,
			100*float64(r.Compressed)/float64(r.Compressible))
	}
	return "compressed  " + text + "\n"
}

// listedViolations is how many violations the summary lists.
const listedViolations = 5

// summarizeViolations prints how many promises the crawl broke, and the first few in aligned columns.
func summarizeViolations(out io.Writer, r *testweb.Report) {
	if r.Unjudged {
		fmt.Fprintln(out, "violations  not counted (--no-politeness)")
		return
	}
	total, kinds := int64(0), []string{}
	for _, k := range slices.Sorted(maps.Keys(r.ViolationCount)) {
		total += r.ViolationCount[k]
		kinds = append(kinds, fmt.Sprintf("%s: %s", k, humanize.Comma(r.ViolationCount[k])))
	}
	if total == 0 {
		kinds = []string{"none"}
	}
	fmt.Fprintf(out, "violations  %s\n", strings.Join(kinds, ", "))
	const indent = "            "
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	listed := r.Violations[:min(len(r.Violations), listedViolations)]
	for _, v := range listed {
		fmt.Fprintf(t, "%s%s\t%s\t%s\n", indent, v.Kind, warcCell(v.Reason()), warcCell(v.Where()))
	}
	_ = t.Flush() // as with the lines above, an error of the output is not the web's
	if more := total - int64(len(listed)); more > 0 {
		fmt.Fprintf(out, "%sand %s more; --report-out FILE lists up to 200 of each kind\n", indent,
			humanize.Comma(more))
	}
	if r.BeforeRobots > 0 {
		fmt.Fprintf(out, "%snot counted: %s before the host's robots.txt was answered\n", indent,
			plural(r.BeforeRobots, "request"))
	}
}

// summarizeNotFound prints the five URLs that were answered with 404 most often, if there are any that were requested
// more than once.
func summarizeNotFound(out io.Writer, urls []testweb.URLCount) {
	title := "most 404s"
	for _, u := range urls[:min(len(urls), 5)] {
		if u.Requests > 1 {
			fmt.Fprintf(out, "%-11s %s  %s\n", title, plural(u.Requests, "request"), warcCell(u.URL))
			title = ""
		}
	}
}
