// A table that is filled anew keeps the order in which its reader has put it.
function rememberedSort(table, filled) {
  const heads = [...table.querySelectorAll("thead tr:last-child th")];
  const column = heads.findIndex((head) => head.hasAttribute("aria-sort"));
  const falling = column >= 0 && heads[column].getAttribute("aria-sort") === "descending";
  const scrolled = table.parentElement.scrollLeft;
  filled(table);
  if (!table.querySelector("thead button")) sortable(table);
  const buttons = [...table.querySelectorAll("thead tr:last-child th button")];
  if (column >= 0) { buttons[column].click(); if (falling) buttons[column].click(); }
  table.parentElement.scrollLeft = scrolled;
}
