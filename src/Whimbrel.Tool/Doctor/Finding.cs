namespace Whimbrel.Tool.Doctor;

/// <summary>Verdict of a finding.</summary>
internal enum Verdict
{
    /// <summary>No advice.</summary>
    Ok,

    /// <summary>It works and can be improved by <see cref="Finding.Fix"/>.</summary>
    Advice,

    /// <summary>Not checked, for the reason in <see cref="Finding.Text"/>. Does not change the exit code.</summary>
    Skipped,
}

/// <summary>Result of one check.</summary>
/// <param name="Name">Name of the check; the same in every version.</param>
/// <param name="Verdict">Verdict of the check.</param>
/// <param name="Text">Observed value and its meaning.</param>
/// <param name="Fix">Command or setting to apply; empty unless the verdict is advice.</param>
internal readonly record struct Finding(string Name, Verdict Verdict, string Text, string Fix)
{
    internal static Finding Ok(string name, string text) => new(name, Verdict.Ok, text, "");

    internal static Finding Advice(string name, string text, string fix) => new(name, Verdict.Advice, text, fix);

    internal static Finding Skipped(string name, string text) => new(name, Verdict.Skipped, text, "");

    /// <summary>Returns a skipped finding for a system file with unexpected contents.</summary>
    internal static Finding NotUnderstood(string name, string path, string text)
    {
        string line = text.Split('\n')[0].Trim();
        return Skipped(name, $"{path} is not understood: '{(line.Length > 40 ? line[..40] + "..." : line)}'");
    }
}
