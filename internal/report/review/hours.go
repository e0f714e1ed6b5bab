package review

import "time"

// An Hour is what a crawl has done in one hour of the day, on all its days together.
type Hour struct {
	Hour     int   `json:"hour"`     // 0 to 23, UTC
	Requests int64 `json:"requests"` // visits with a response, those to robots.txt included
	Pages    int64 `json:"pages"`    // 2xx responses
	Bytes    int64 `json:"content_bytes"`
}

// dayHours are the hours of a day.
type dayHours [24]Hour

// add counts a line at a time.
func (d *dayHours) add(at time.Time, responded, page bool, size int64) {
	h := &d[at.UTC().Hour()]
	h.Bytes += size
	if responded {
		h.Requests++
	}
	if page {
		h.Pages++
	}
}

// list returns the hours of the day that have any traffic.
func (d *dayHours) list() (hours []Hour) {
	for i, h := range d {
		if h.Hour = i; h.Requests > 0 || h.Bytes > 0 {
			hours = append(hours, h)
		}
	}
	return hours
}
