package view

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/review"
)

// A Cell is one cell of a table. Its Text has no control characters.
type Cell struct {
	Text string
	Link string  // http or https URL; empty: no link
	Bar  float64 // share of the longest bar of the column, from 0 to 1
	Tone string  // "good", "note", "warn", "bad" or "": the meaning of the row
}

func text(s string) Cell { return Cell{Text: report.OneLine(s)} }

func number(n int64) Cell { return Cell{Text: humanize.Comma(n)} }

func size(n int64) Cell { return Cell{Text: humanize.Bytes(uint64(max(n, 0)))} }

func millis(ms int64) Cell { return Cell{Text: span(time.Duration(ms) * time.Millisecond)} }

// percent returns n of all as a cell.
func percent(n, all int64) Cell {
	if all <= 0 {
		return Cell{Text: "-"}
	}
	p := 100 * float64(n) / float64(all)
	if p > 0 && p < 0.1 {
		return Cell{Text: "< 0.1 %"}
	}
	return Cell{Text: strconv.FormatFloat(p, 'f', 1, 64) + " %"}
}

// location returns a URL as a cell, with a link if a browser may follow it.
func location(u string) Cell {
	c := text(u)
	if linkable(u) {
		c.Link = u
	}
	return c
}

// linkable reports whether u is a whole http or https URL without characters that would hide where it leads.
func linkable(u string) bool {
	if strings.HasSuffix(u, review.Cut) || u != report.OneLine(u) || strings.ContainsAny(u, " \"<>\\^`{|}") {
		return false
	}
	p, err := url.Parse(u)
	return err == nil && (p.Scheme == "http" || p.Scheme == "https") && p.Host != "" && p.User == nil
}

// statusText describes a status or a negative code.
func statusText(code int) string {
	if code <= 0 {
		return report.CodeText(code)
	}
	if s := http.StatusText(code); s != "" {
		return s
	}
	return "not a registered status"
}

// statusTone returns the tone of a code.
func statusTone(code int) string {
	switch {
	case code == report.CodeRobotsDenied || code == report.CodeQuota || code == report.CodeDeletedByUser ||
		code == report.CodeBlockedByUser:
		return "quiet"
	case code <= 0 || code >= 500:
		return "bad"
	case code >= 400:
		return "warn"
	case code >= 300:
		return "note"
	}
	return "good"
}

// span formats a duration with two significant units or digits.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d/time.Second%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d/time.Minute%60)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d/time.Hour%24)
}

func seconds(s float64) string {
	return span(time.Duration(min(s, math.MaxInt64/1e10) * float64(time.Second)))
}

// rate formats a number a second with three significant digits at most.
func rate(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x < 10:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case x < 100:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return humanize.Comma(int64(x + 0.5))
}

// meanRate formats how many pages a second there are in a number of seconds. Without a time there is no rate.
func meanRate(pages int64, seconds float64) string {
	if seconds <= 0 {
		return "-"
	}
	return rate(float64(pages) / seconds)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// rangeText names the range of a bar. name formats a bound.
func rangeText(b review.Bar, name func(int64) string) string {
	switch {
	case b.To == 0:
		return name(b.From) + " or more"
	case b.From == 0:
		return "under " + name(b.To)
	}
	return name(b.From) + " – " + name(b.To)
}
