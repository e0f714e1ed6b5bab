package scripts

import "slices"

// data is the content of data.json.
type data struct {
	Board   []entry `json:"board"`   // in the list of notices
	Linked  []entry `json:"linked"`  // only below other notices
	Archive []entry `json:"archive"` // only in the archive
	Members []entry `json:"members"` // only in the list for members
	Rooms   []room  `json:"rooms"`
	Lost    []entry `json:"lost"` // works that only the search finds
	Months  []month `json:"months"`
	Late    month   `json:"late"`
	Harbour entry   `json:"harbour"`
	Home    entry   `json:"home"`
}

// An entry is the text of a page.
type entry struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
	Mark  string `json:"mark"`
	Year  int    `json:"year"`
}

type room struct {
	entry
	Works  []entry `json:"works"`
	Chain  []entry `json:"chain"` // works to which only the label of another work links
	People []entry `json:"people"`
}

type month struct {
	entry
	Tides []entry `json:"tides"`
}

// all returns the entries of the notice board and the museum.
func (d *data) all() []entry {
	all := slices.Concat(d.Board, d.Linked, d.Archive, d.Members, d.Lost)
	for _, r := range d.Rooms {
		all = slices.Concat(all, r.Works, r.Chain, r.People)
	}
	return all
}

// told is an entry as a script gets it. Its text ends in the mark.
type told struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
	Next  string `json:"next,omitempty"`
	Items []item `json:"items,omitempty"`
}

func (e *entry) told() told {
	return told{ID: e.ID, Title: e.Title, Text: e.Text + " " + e.Mark + "."}
}

// An item is an entry in a list.
type item struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Year  int    `json:"year,omitempty"`
}

func items(list []entry) []item {
	all := []item{}
	for _, e := range list {
		all = append(all, item{e.ID, e.Title, e.Year})
	}
	return all
}
