/* Search in the page's own script: browsers refuse workers and requests for files on disk. */
(function () {
  const input = document.getElementById("mkdocs-search-query");
  if (!input) return;
  const results = document.getElementById("mkdocs-search-results");

  function load(name) {
    return new Promise(function (resolve, reject) {
      const script = document.createElement("script");
      script.src = base_url + "/search/" + name;
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(script);
    });
  }

  function add(parent, name, text) {
    const element = document.createElement(name);
    element.textContent = text;
    parent.append(element);
    return element;
  }

  function start() {
    const pages = new Map(searchIndex.docs.map((page) => [page.location, page]));
    const index = lunr(function () {
      this.ref("location");
      this.field("title", { boost: 10 });
      this.field("text");
      searchIndex.docs.forEach((page) => this.add(page));
    });

    function show() {
      const words = lunr.tokenizer(input.value).map(String).filter((word) => word.length > 1);
      const found = words.length
        ? index.query(function (query) {
            words.forEach(function (word) {
              query.term(lunr.tokenizer(word), { boost: 10 });
              query.term(lunr.tokenizer(word), { wildcard: lunr.Query.wildcard.TRAILING });
            });
          })
        : [];
      results.replaceChildren();
      found.slice(0, 30).forEach(function (hit) {
        const page = pages.get(hit.ref);
        const article = add(results, "article", "");
        const link = add(add(article, "h3", ""), "a", page.title);
        link.href = base_url + "/" + page.location;
        add(article, "p", page.text.slice(0, 200));
      });
      if (!found.length) add(results, "p", words.length ? "Nothing found" : "");
    }

    input.value = new URLSearchParams(location.search).get("q") || "";
    input.addEventListener("input", show);
    show();
  }

  load("lunr.js").then(() => load("index.js")).then(start);
})();
