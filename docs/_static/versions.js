// The published versions: tools/site_of_versions.py replaces this file. A local build has no others.
window.kopfVersions = { root: "", title: "", versions: [] };
