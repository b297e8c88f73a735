using System.Text;

namespace Whimbrel.Clusters;

/// <summary>Names of groups as subjects of a broker: what a broker may read something into is written as = and two hex digits of its UTF-8.</summary>
internal static class Subjects
{
    internal static bool IsPlain(string? name) => name is { Length: >= 1 and <= 64 } && name.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_');

    /// <summary>Where nodes ask each other what they have published.</summary>
    internal static string OfNodes(string application) => $"{application}.nodes";

    internal static string OfGroup(string application, string group) => Make(application, "group", group);

    /// <summary>The stream of a recoverable group, and where news of it is told.</summary>
    internal static string OfHistory(string application, string group) => Make(application, "history", group);

    private static string Make(string application, string part, string group)
    {
        StringBuilder subject = new($"{application}.{part}.", application.Length + 9 + (2 * group.Length));
        foreach (byte b in Encoding.UTF8.GetBytes(group))
        {
            if (char.IsAsciiLetterOrDigit((char)b) || b is (byte)'-' or (byte)'_') subject.Append((char)b);
            else subject.Append('=').Append(b.ToString("X2", System.Globalization.CultureInfo.InvariantCulture));
        }

        return subject.ToString();
    }
}
