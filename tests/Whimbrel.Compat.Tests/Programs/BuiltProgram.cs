namespace Whimbrel;

// A program that was built with the tests, precompiled if the build does so (tests/Directory.Build.targets).
internal static class BuiltProgram
{
    internal static string PathOf(string name)
    {
        string precompiled = Path.Combine(AppContext.BaseDirectory, "precompiled", name + ".dll");
        return File.Exists(precompiled) ? precompiled : Path.Combine(AppContext.BaseDirectory, name + ".dll");
    }
}
