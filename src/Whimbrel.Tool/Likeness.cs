namespace Whimbrel.Tool;

/// <summary>Finds the known word that is most similar to a misspelt one.</summary>
internal static class Likeness
{
    private const int MostEdits = 2;

    /// <summary>Returns the word with the smallest edit distance, at most two and less than its length; null if there
    /// is none.</summary>
    internal static string? Nearest(string word, IEnumerable<string> known)
    {
        string? nearest = null;
        int least = MostEdits + 1;
        foreach (string one in known)
        {
            int edits = Edits(word, one);
            if (edits >= least || edits >= one.TrimStart('-').Length) continue;
            least = edits;
            nearest = one;
        }

        return nearest;
    }

    private static int Edits(string from, string to)
    {
        int[] row = [.. Enumerable.Range(0, to.Length + 1)];
        for (int i = 1; i <= from.Length; i++)
        {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= to.Length; j++)
            {
                int change = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
                diagonal = row[j];
                row[j] = Math.Min(change, Math.Min(row[j], row[j - 1]) + 1);
            }
        }

        return row[^1];
    }
}
