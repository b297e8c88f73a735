using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace Whimbrel.Docs;

// The SDK's package validation runs within each pack (src/Directory.Build.props): a package is an error if its assembly
// for a runtime lacks an API of the one in lib/.
public class PackageValidationTests
{
    private static readonly TimeSpan _limit = TimeSpan.FromMinutes(5);

    [Fact]
    public async Task A_package_whose_runtime_assembly_lacks_an_API_fails_to_pack()
    {
        string folder = Directory.CreateTempSubdirectory("whimbrel-validation-").FullName;
        try
        {
            string other = Path.Combine(folder, "Whimbrel.Calls.dll");
            var made = CSharpCompilation.Create("Whimbrel.Calls",
                [CSharpSyntaxTree.ParseText("namespace Whimbrel; public sealed class CallOptions { }")],
                [MetadataReference.CreateFromFile(typeof(object).Assembly.Location)],
                new CSharpCompilationOptions(OutputKind.DynamicallyLinkedLibrary)).Emit(other);
            Assert.True(made.Success, string.Join('\n', made.Diagnostics));
            string targets = Path.Combine(folder, "other.targets");
            await File.WriteAllTextAsync(targets, $"""
                <Project>
                  <PropertyGroup>
                    <TargetsForTfmSpecificContentInPackage>$(TargetsForTfmSpecificContentInPackage);AddOther</TargetsForTfmSpecificContentInPackage>
                  </PropertyGroup>
                  <Target Name="AddOther">
                    <ItemGroup>
                      <TfmSpecificPackageFile Include="{other}" PackagePath="runtimes/linux-x64/lib/$(TargetFramework)/" />
                    </ItemGroup>
                  </Target>
                </Project>
                """, TestContext.Current.CancellationToken);
            var (code, output) = await Command.RunAsync(folder, _limit, "dotnet", "msbuild",
                Repository.PathOf("src/Whimbrel.Calls/Whimbrel.Calls.csproj"), "-t:Pack", "-nologo", "-v:quiet",
                "-clp:NoSummary", $"-p:Configuration={PackedFeed.Configuration}", "-p:NoBuild=true",
                "-p:CanPrecompile=false", $"-p:PackageOutputPath={folder}", $"-p:NuspecOutputPath={folder}/",
                $"-p:CustomAfterMicrosoftCommonTargets={targets}");
            Assert.NotEqual(0, code);
            Assert.Contains("CP0001", output, StringComparison.Ordinal);
            Assert.Contains("Whimbrel.CallClient", output, StringComparison.Ordinal);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }
}
