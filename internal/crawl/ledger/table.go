package ledger

import "github.com/orbweaver/orbweaver/internal/crawl/state"

type recordTable = state.Table[*resume, *merge, *repair, *Transfer]

// table tells what becomes of the journal's records of each kind. The handlers read it themselves, so it cannot be
// initialized here.
var table recordTable

func init() {
	ownRows(&table)
	clusterRows(&table)
}

// ownRows adds the kinds that a single agent writes. A checkpoint writes the kinds of a snapshot anew, from memory.
func ownRows(t *recordTable) {
	t.Add(state.Crawl, "crawl", nil, nil, nil, nil) // resume.crawlRecord reads the first record
	t.Add(state.Number, "number", (*resume).number, (*merge).Number, (*repair).last, (*Transfer).Number)
	t.Add(state.Done, "done", (*resume).Runs, (*merge).Runs, nil, (*Transfer).Runs)
	t.Add(state.Accept, "accept", (*resume).accept, (*merge).accept, (*repair).accept, (*Transfer).Accept)
	t.Add(state.Finished, "finish", (*resume).finish, (*merge).finish, (*repair).finish, (*Transfer).finish)
	t.Add(state.Keys, "keys", (*resume).key, (*merge).keysRecord, (*repair).key, nil)
	t.Add(state.Pending, "pending", nil, nil, nil, nil) // History.EachIn reads them
	t.Add(state.Again, "again", (*resume).ordered, (*merge).again, nil, (*Transfer).again)
	t.Add(state.Visited, "visited", (*resume).visited, (*merge).visited, nil, (*Transfer).visited)
	t.Add(state.Host, "host", nil, nil, nil, (*Transfer).host)
	t.Add(state.Held, "held", (*resume).mark, nil, nil, nil)
}

// clusterRows adds the kinds that only an agent of a cluster writes.
func clusterRows(t *recordTable) {
	t.Add(state.Outgoing, "outgoing", (*resume).accept, (*merge).accept, (*repair).accept, (*Transfer).Accept)
	t.Add(state.Passed, "passed", (*resume).accept, (*merge).accept, (*repair).accept, (*Transfer).Accept)
	t.Add(state.Sent, "sent", (*resume).sent, (*merge).Ended, nil, (*Transfer).Ended)
	t.Add(state.PendingOut, "pending outgoing", nil, nil, nil, nil)
	t.Add(state.OutgoingKeys, "outgoing keys", (*resume).key, (*merge).keysRecord, (*repair).key, nil)
	t.Add(state.DoneKeys, "done keys", (*resume).key, (*merge).keysRecord, (*repair).key, (*Transfer).doneKeys)
	t.Add(state.KeyList, "key list", (*resume).list, (*merge).keysRecord, (*repair).list, nil)
	t.Add(state.DoneList, "done list", (*resume).list, (*merge).keysRecord, (*repair).list, (*Transfer).doneKeys)
	t.Add(state.Told, "told", (*resume).ordered, (*merge).told, nil, (*Transfer).told)
}
