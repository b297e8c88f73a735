using System.Diagnostics;

namespace Whimbrel.Tidy;

// The defects that tests/mutate plants are found by the lines around them. This test makes a change of those lines mend
// the entry too; otherwise a later deep run plants nothing. The script itself checks, so that both agree.
public class DefectTests
{
    [Fact]
    public void Every_planted_defect_has_its_place_in_the_code()
    {
        (int code, string output) = Check();
        Assert.True(code == 0, output);
    }

    [Theory]
    [InlineData("file: Engines/Timers.cs\ntests: Tests TimersTests\n-        these lines are nowhere", "stand 0 times")]
    [InlineData("file: Engines/Timers.cs\ntests: Tests TimersTests\n-    }\n+    };", "times in Engines/Timers.cs")]
    [InlineData("file: Engines/Timers.cs\ntests: Tests TimersTests\n@@ no such method\n-            index = parent;",
        "'no such method' stands 0 times")]
    [InlineData("file: Nowhere.cs\ntests: Tests TimersTests\n-    }", "there is no src/Whimbrel/Nowhere.cs")]
    [InlineData("file: Engines/Timers.cs\ntests: Tests TimersTests\n the same line",
        "with lines that begin with - or +")]
    [InlineData("file: Engines/Timers.cs\ntests: Trials TimersTests\n-    }", "no project Trials")]
    public void A_defect_without_a_place_is_found(string entry, string complaint)
    {
        DirectoryInfo folder = Directory.CreateTempSubdirectory("whimbrel-defects-");
        try
        {
            File.WriteAllText(Path.Combine(folder.FullName, "area.txt"), "A defect\n" + entry + "\n");
            (int code, string output) = Check("--defects", folder.FullName);
            Assert.Equal(1, code);
            Assert.Contains(complaint, output);
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }

    private static (int Code, string Output) Check(params string[] more)
    {
        Assert.SkipUnless(Environment.GetEnvironmentVariable("PATH")!.Split(':')
            .Any(static p => File.Exists(Path.Combine(p, "python3"))), "python3 is not installed.");
        ProcessStartInfo start = new("python3", [Path.Combine(Repository.Root, "tests", "mutate"), "--check", .. more])
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true
        };
        using Process script = Process.Start(start)!;
        Task<string> mistakes = script.StandardError.ReadToEndAsync();
        string output = script.StandardOutput.ReadToEnd() + mistakes.Result;
        script.WaitForExit();
        return (script.ExitCode, output);
    }
}
