namespace Whimbrel.Tool.Doctor;

/// <summary>What a finding comes to.</summary>
internal enum Verdict
{
    /// <summary>Nothing to do.</summary>
    Ok,

    /// <summary>It works, and could be better; <see cref="Finding.Fix"/> says how.</summary>
    Advice,

    /// <summary>Not looked at, or not understood; <see cref="Finding.Text"/> says why. Counts for nothing.</summary>
    Skipped,
}

/// <summary>One line of the doctor.</summary>
/// <param name="Name">What was looked at; the same words in every version.</param>
/// <param name="Verdict">What it comes to.</param>
/// <param name="Text">What was found, and what it means.</param>
/// <param name="Fix">What to run or to set; empty unless the verdict is advice.</param>
internal readonly record struct Finding(string Name, Verdict Verdict, string Text, string Fix)
{
    internal static Finding Ok(string name, string text) => new(name, Verdict.Ok, text, "");

    internal static Finding Advice(string name, string text, string fix) => new(name, Verdict.Advice, text, fix);

    internal static Finding Skipped(string name, string text) => new(name, Verdict.Skipped, text, "");

    /// <summary>A file of the system is there and holds something else than expected.</summary>
    internal static Finding NotUnderstood(string name, string path, string text)
    {
        string line = text.Split('\n')[0].Trim();
        return Skipped(name, $"{path} is not understood: '{(line.Length > 40 ? line[..40] + "..." : line)}'");
    }
}
