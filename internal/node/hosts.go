package node

import "github.com/orbweaver/orbweaver/internal/web/sheet"

// SetHosts replaces the settings of parts of the web, Config.Hosts. They hold for every decision from now on: a
// request that is under way, a host's present quiet time and links that are already accepted stay as they are. Nil
// removes all. In a cluster, call it on all agents. The change lasts until Close. Safe for concurrent use.
func (a *Agent) SetHosts(t *sheet.Table) { a.sheets.Set(t) }
