package scripts

import "fmt"

const (
	membersList = "/api/members.json"
	listed      = 6 // notices that the board fetches at a time
	shown       = 3 // works that a room shows without its button
)

// notices makes the notice board (React): infinite scroll, a lazy chunk, files of another host, a cookie.
func (d *data) notices() *host {
	h := newHost(reactHost, "react")
	h.built("web/react")
	see := map[string]string{} // each linked notice stands below one of the board
	for i, e := range d.Linked {
		see[d.Board[4*i].ID] = e.ID
	}
	type notice struct {
		told
		See []string `json:"see"`
	}
	for _, e := range d.all()[:len(d.Board)+len(d.Linked)+len(d.Archive)+len(d.Members)] {
		n := notice{told: e.told(), See: []string{}}
		if to := see[e.ID]; to != "" {
			n.See = append(n.See, to)
		}
		at := "/api/notice/" + e.ID + ".json"
		h.say(at, n)
		h.page("/notice/"+e.ID, e.Mark, at)
	}
	type list struct {
		Items []item  `json:"items"`
		Next  *string `json:"next"`
	}
	var lists []string
	for i := 0; i < len(d.Board); i += listed {
		l := list{Items: items(d.Board[i:min(i+listed, len(d.Board))])}
		if i+listed < len(d.Board) {
			l.Next = new(boardList(i/listed + 2))
		}
		lists = append(lists, boardList(i/listed+1))
		h.say(boardList(i/listed+1), l)
	}
	h.say(membersList, list{Items: items(d.Members)})
	h.page("/", d.Board[len(d.Board)-1].Title, lists...)
	h.page("/members", d.Members[0].Title, membersList)
	h.page("/archive", d.Archive[0].Title)
	archive := &h.app.Pages[len(h.app.Pages)-1]
	for _, at := range []string{"/archive.json", "/years.js"} {
		archive.Needs = append(archive.Needs, "https://"+filesHost+at)
	}
	return h
}

func boardList(n int) string { return fmt.Sprintf("/api/notices/%d.json", n) }

// museum makes the museum (Vue): a button for more, details, shadow roots, a worker, and a POST that robots.txt
// forbids.
func (d *data) museum() *host {
	h := newHost(vueHost, "vue")
	h.robots = "User-agent: *\nDisallow: /api/visits\n"
	h.built("web/vue")
	rooms := told{Title: "A small museum"}
	type found struct {
		item
		Words string `json:"words"`
	}
	var index []found
	work := func(e entry, next, words string) {
		t := e.told()
		t.Next = next
		at := "/api/work/" + e.ID + ".json"
		h.say(at, t)
		h.page("/work/"+e.ID, e.Mark, at)
		if words != "" {
			index = append(index, found{item{ID: e.ID, Title: e.Title}, words})
		}
	}
	for _, r := range d.Rooms {
		rooms.Items = append(rooms.Items, item{ID: r.ID, Title: r.Title})
		t, at := r.told(), "/api/room/"+r.ID
		t.Items = items(r.Works[:shown])
		h.say(at+".json", t)
		h.say(at+"/more.json", items(r.Works[shown:]))
		h.say(at+"/people.json", items(r.People))
		h.page("/room/"+r.ID, r.Mark, at+".json", at+"/more.json", at+"/people.json")
		for i, e := range r.Works {
			next := ""
			if i == len(r.Works)-1 {
				next = r.Chain[0].ID
			}
			work(e, next, "shown")
		}
		for i, e := range r.Chain {
			next := ""
			if i+1 < len(r.Chain) {
				next = r.Chain[i+1].ID
			}
			work(e, next, "")
		}
		for _, e := range r.People {
			at := "/api/person/" + e.ID + ".json"
			h.say(at, e.told())
			h.page("/person/"+e.ID, e.Mark, at)
		}
	}
	for _, e := range d.Lost {
		work(e, "", "lost")
	}
	h.say("/api/rooms.json", rooms)
	h.say("/api/index.json", index)
	h.page("/", rooms.Title, "/api/rooms.json")
	h.page("/search", d.Lost[0].Title, "/api/index.json", "/assets/worker.js")
	return h
}

// tides makes the tide tables (Svelte): a service worker that alone has the tides, a script's redirect, and news that
// come late.
func (d *data) tides() *host {
	const all, news = "/api/tides.json", "/api/late.json"
	h := newHost(svelte, "svelte")
	h.built("web/svelte")
	tides := map[string]told{}
	list := func(m *month, at, api string, next string) {
		t := m.told()
		t.Next, t.Items = next, items(m.Tides)
		h.say(api, t)
		h.page(at, m.Mark, api)
		for _, e := range m.Tides {
			tides[e.ID] = e.told()
			h.page("/tide/"+e.ID, e.Mark, "/sw.js", all)
		}
	}
	for i := range d.Months {
		m, next := &d.Months[i], ""
		if i+1 < len(d.Months) {
			next = d.Months[i+1].ID
		}
		list(m, "/month/"+m.ID, "/api/month/"+m.ID+".json", next)
	}
	list(&d.Late, "/late", news, "")
	h.say(all, tides)
	h.say("/api/home.json", d.Home.told())
	h.page("/", d.Home.Mark, "/api/home.json")
	h.say("/api/harbour.json", d.Harbour.told())
	h.page("/harbour", d.Harbour.Mark, "/api/harbour.json")
	h.page("/old-harbour", d.Harbour.Mark) // the text is that of the page to which it leads
	return h
}

// common makes the host of the files that pages of another host need.
func (d *data) common() *host {
	h := newHost(filesHost, "files")
	h.built("web/cdn")
	h.say("/archive.json", items(d.Archive))
	return h
}
