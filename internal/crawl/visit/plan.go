package visit

import (
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Unchanged reports that a page that was visited again has not changed.
func (v *Attempt) Unchanged() bool {
	return v.Compared() && (v.Confirmed() || v.Plan().Print == v.Plan().Before.Print)
}

// followedElsewhere reports that the page is visited again, has not changed, and that another agent has its earlier
// version and has followed its links.
func (v *Attempt) followedElsewhere() bool { return v.isElsewhere() && v.Unchanged() }

// isElsewhere reports that the page is visited again, and that another agent has its earlier version.
func (v *Attempt) isElsewhere() bool {
	b := v.Plan().Before
	return b != nil && b.Original.ID == [16]byte{} && !b.Original.Date.IsZero()
}

// Compared reports whether the two contents can be compared: both are complete, or both were
// cut and something comparable is known of them.
func (v *Attempt) Compared() bool {
	b := v.Plan().Before
	return b != nil && v.Outcome == Fetched &&
		(v.Confirmed() || v.Plan().Print != 0 && b.Print != 0 && (v.Plan().Print^b.Print)&printCut == 0)
}

// Confirmed reports that the server confirmed the earlier content (304).
func (v *Attempt) Confirmed() bool {
	return v.Plan().Before != nil && v.Outcome == Fetched && v.Response.Status == 304 && !v.Plan().Before.If.IsZero()
}

// fingerprint records what the next response to the same URL is compared with. body is the
// decoded content, or nil if it is not needed.
func (v *Attempt) fingerprint(r *fetch.Response, body []byte, cut bool) {
	v.Plan().Validators, v.Plan().Modified = fetch.ConditionOf(r), fetch.LastModified(r.Header)
	to, redirect := fetch.Redirect(r)
	switch {
	case redirect:
		v.Plan().Print = printOf(r.Status, []byte(to))
	case r.Status/100 != 2:
		v.Plan().Print = printOf(r.Status, nil) // error pages contain the time and other changing text
	case r.Truncated != "":
		v.Plan().Print = printOfCut(r, body)
	case cut: // the archive reads the whole body
		v.Plan().Print, v.Plan().cut = 0, true
	default:
		v.Plan().Print = printOf(200, body)
	}
}

// printCut marks the print of an incomplete content.
const printCut = 1

// printOfCut returns the print of an incomplete content: of the server's validators, or, if the
// crawl cut the content at its own bound, of the bytes up to the bound. It returns 0 if the
// content cannot be compared, because the next response may end elsewhere.
func printOfCut(r *fetch.Response, body []byte) uint64 {
	etag, modified := r.Header.Get("ETag"), r.Header.Get("Last-Modified")
	switch {
	case etag != "" || modified != "":
		return printOf(0, []byte(etag+"\n"+modified)) | printCut
	case r.Truncated == fetch.TruncatedLength:
		return printOf(200, body) | printCut
	}
	return 0
}

func printOf(status int, content []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	d.Write(content)
	d.Write(binary.LittleEndian.AppendUint32(nil, uint32(status)))
	return max(d.Sum64()&^printCut, 2)
}

// A PlanNote is what a Planner needs.
type PlanNote struct {
	link       link.Link // the link of the page that the Strategy judges
	Before     *Before   // for a URL that is fetched again
	Offered    []link.Link
	Print      uint64
	cut        bool // use the archive's digest as print
	Validators fetch.Condition
	Modified   time.Time
}

func (n *PlanNote) Reset() { *n = PlanNote{} }

func (v *Attempt) Plan() *PlanNote { return Annotated[PlanNote](v) }
