namespace Whimbrel.Compat.Tests.Differences;

/// <summary>One behaviour of an old library that can be seen from outside.</summary>
/// <param name="Name">Names the case in test results.</param>
/// <param name="Run">Calls the old API and returns what was seen.</param>
/// <param name="Original">What the original gives: measured with NetCoreServer b7fcaf7, read from CSharpServer
/// 1.9.</param>
/// <param name="Here">What this library gives instead, on purpose. Null: the same.</param>
/// <param name="Row">First cell of the row of docs/guide/migrate.md that explains the difference.</param>
internal sealed record Behaviour(
    string Name, Func<string> Run, string Original, string? Here = null, string? Row = null)
{
    public override string ToString() => Name;
}
