package testweb

// DebianDocs are the folders of Debian's documentation packages (see docs.sh)
// under the hosts where these pages live on the web: some 6,000 pages by many
// hands, in thirty languages.
func DebianDocs() []Folder {
	const doc = "/usr/share/doc/"
	return []Folder{
		{Host: "docs.python.org", Dir: doc + "python3.11-doc/html", Scheme: "https"},
		{Host: "httpd.apache.org", Prefix: "/docs/2.4", Dir: doc + "apache2-doc/manual", Scheme: "https"},
		{Host: "www.postgresql.org", Dir: doc + "postgresql-doc-15/html", Scheme: "https"},
		{Host: "sqlite.org", Dir: doc + "sqlite3", Scheme: "https"},
		// The package has a folder for each language and nothing above them.
		{Host: "debian-handbook.info", Dir: doc + "debian-handbook/html", Listing: true, Scheme: "https"},
		{Host: "nodejs.org", Dir: doc + "nodejs/api", Scheme: "https"},
		{Host: "docs.djangoproject.com", Dir: doc + "python-django-doc/html", Scheme: "https"},
		{Host: "docs.sqlalchemy.org", Dir: doc + "python-sqlalchemy-doc/html", Scheme: "https"},
	}
}
