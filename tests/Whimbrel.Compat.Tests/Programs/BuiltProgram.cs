namespace Whimbrel;

// A program that was built beside the tests, with machine code where the build has made some (tests/Directory.Build.targets).
internal static class BuiltProgram
{
    internal static string PathOf(string name)
    {
        string precompiled = Path.Combine(AppContext.BaseDirectory, "precompiled", name + ".dll");
        return File.Exists(precompiled) ? precompiled : Path.Combine(AppContext.BaseDirectory, name + ".dll");
    }
}
