package report

import "maps"

// Counts are the counts of a Tally that only grow.
type Counts struct {
	Pages, Files, Bytes, Denied, Near, Earlier, Refetched, Revisits, Unchanged, Sent int64

	Errors map[string]int64 // by kind
	Codes  map[int]int64    // HTTP responses by status, without those to robots.txt requests
}

// Counts returns the counts of t. The maps are copies.
func (t *Tally) Counts() Counts {
	c := Counts{Pages: t.n.pages, Files: t.n.files, Bytes: t.n.bytes, Denied: t.n.denied, Near: t.n.near,
		Earlier: t.n.earlier, Refetched: t.n.refetched, Revisits: t.n.revisits, Unchanged: t.n.unchanged,
		Sent:   t.n.sent,
		Errors: t.Errors(), Codes: maps.Clone(t.status)}
	maps.DeleteFunc(c.Codes, func(code int, _ int64) bool { return code <= 0 })
	return c
}

// Since subtracts earlier counts of the same Tally. It changes the maps of c.
func (c Counts) Since(earlier Counts) Counts {
	for _, n := range [...]struct {
		now  *int64
		then int64
	}{
		{&c.Pages, earlier.Pages}, {&c.Files, earlier.Files}, {&c.Bytes, earlier.Bytes}, {&c.Denied, earlier.Denied},
		{&c.Near, earlier.Near}, {&c.Earlier, earlier.Earlier}, {&c.Refetched, earlier.Refetched},
		{&c.Revisits, earlier.Revisits}, {&c.Unchanged, earlier.Unchanged}, {&c.Sent, earlier.Sent},
	} {
		*n.now -= n.then
	}
	for kind, n := range earlier.Errors {
		c.Errors[kind] -= n
	}
	for code, n := range earlier.Codes {
		c.Codes[code] -= n
	}
	return c
}
