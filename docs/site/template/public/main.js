// The site's additions to docfx's template: a link to the Markdown of a page, and a choice of versions.
export default {
  start() {
    const article = document.querySelector('article')
    if (article && location.pathname.endsWith('.html')) {
      const link = document.createElement('a')
      link.href = location.pathname.replace(/\.html$/, '.md')
      link.textContent = 'This page as Markdown'
      link.className = 'markdown-twin'
      article.append(link)
    }
    showVersions()
  },
}

async function showVersions() {
  const root = new URL(document.querySelector('meta[name="docfx:rel"]')?.content || './', location.href)
  const place = document.querySelector('header .navbar-brand')
  if (!place) return
  let versions
  try {
    const answer = await fetch(new URL('../versions.json', root))
    if (!answer.ok) return
    versions = await answer.json()
  } catch {
    return // opened from a folder, where nothing can be fetched
  }
  const choice = document.createElement('select')
  choice.id = 'versions'
  choice.ariaLabel = 'Version'
  const current = root.pathname.split('/').filter(Boolean).pop()
  for (const version of versions) choice.add(new Option(version, version, false, version === current))
  choice.onchange = () => { location.href = new URL(`../${choice.value}/index.html`, root) }
  place.after(choice)
}
