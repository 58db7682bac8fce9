// An extension of pi for row 6: the command "/append JSON" appends an entry and asks no model.

export default function (pi) {
  pi.registerCommand("append", {
    description: "Append an entry.",
    handler: async (text) => pi.appendEntry("bench", JSON.parse(text)),
  });
}
