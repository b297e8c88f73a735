using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;

namespace Whimbrel.Hosting;

/// <summary>Registration of the engine that all servers of the host share, with its section.</summary>
internal sealed record EngineRegistration(string Section, Func<IServiceProvider, EngineOptions>? Options)
{
    /// <summary>Reads the options and adds every mistake. With a mistake the result must not be used.</summary>
    internal EngineOptions Read(IServiceProvider services, List<string> mistakes)
    {
        SectionReader section = new(services.GetRequiredService<IConfiguration>().GetSection(Section), mistakes);
        NoticeLog notices = new(HostLogging.Make(services, "Whimbrel.Engine"), TimeProvider.System);
        EngineOptions options = EngineSection.Read(section, Options?.Invoke(services) ?? new EngineOptions(),
            notices.Write);
        foreach (string found in options.FindMistakes()) section.AddFound(found);
        return options;
    }

    internal Engine Make(IServiceProvider services)
    {
        List<string> mistakes = [];
        EngineOptions options = Read(services, mistakes);
        return mistakes.Count == 0
            ? new Engine(options)
            : throw new InvalidOperationException(string.Join("; ", mistakes));
    }
}
